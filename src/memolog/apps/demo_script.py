"""The conversation that the demo plays: four days of work on a small service, in our own words."""

__all__ = ["DAYS"]

Exchange = tuple[str, tuple[tuple[str, str, str], ...], str]
"""What the user said, the tools that were used (name, target, result), and what was answered."""

DAYS: tuple[tuple[Exchange, ...], ...] = (
    (
        (
            "Hi! The API lives in server/, the frontend in client/. We deploy to Fly.io on Fridays. Please add a login endpoint.",
            (
                ("list_files", "server/routes", "users.ts\nhealth.ts\nindex.ts"),
                (
                    "read_file",
                    "server/routes/users.ts",
                    "import { db } from '../db'\n" + "export async function listUsers() { … }\n" * 12,
                ),
            ),
            "There is no auth route yet. I will add server/routes/auth.ts with POST /api/auth/login and a schema for the body.",
        ),
        (
            "Good. Passwords must have at least 12 characters, and I prefer argon2id over bcrypt.",
            (
                (
                    "write_file",
                    "server/schemas/auth.ts",
                    "export const LoginSchema = z.object({\n  email: z.string().email(),\n  password: z.string().min(12),\n})",
                ),
                ("run", "npm test", "Tests: 41 passed, 1 failed\nFAIL server/auth.test.ts: expected 401, received 500"),
            ),
            "LoginSchema is in server/schemas/auth.ts. One test fails: a wrong password gives 500 instead of 401. I will fix that next.",
        ),
        (
            "Yes, please. And keep the handler free of Express, we move to Fastify by next Friday.",
            (
                ("edit_file", "server/routes/auth.ts", "verifyPassword() now returns null instead of throwing"),
                ("run", "npm test", "Tests: 42 passed"),
            ),
            "Fixed: verifyPassword() returned an error for unknown users. All 42 tests pass. The handler takes a plain request object.",
        ),
        (
            "Perfect, that works. Thanks!",
            (),
            "The login endpoint is finished. Next could be rate limiting, or refresh tokens.",
        ),
    ),
    (
        (
            "Morning. Let's do refresh tokens today. They should live for 30 days and be stored hashed.",
            (
                (
                    "write_file",
                    "server/db/migrations/004_refresh_tokens.sql",
                    "-- refresh tokens, stored hashed\nCREATE TABLE refresh_tokens (\n  id UUID PRIMARY KEY,\n  user_id UUID NOT NULL,\n  token_hash TEXT NOT NULL,\n"
                    "  expires_at TIMESTAMPTZ NOT NULL\n);",
                ),
                ("run", "npm run migrate", "004_refresh_tokens.sql applied in 38 ms"),
            ),
            "The table refresh_tokens is there: id, user_id, token_hash, expires_at. Tokens are hashed with SHA-256 before they are stored.",
        ),
        (
            "What happens when a token is used twice?",
            (("search", "token rotation", "server/auth/rotate.ts: rotateToken() does not look at used tokens"),),
            "At the moment it would be accepted twice. I suggest rotation: each use issues a new token and revokes the family on reuse.",
        ),
        (
            "Do that. My colleague Dana will review it, her handle is @dana-k.",
            (
                ("edit_file", "server/auth/rotate.ts", "rotateToken(): added family_id, revokeFamily()"),
                ("run", "npm test", "Tests: 47 passed"),
            ),
            "rotateToken() now keeps a family_id; revokeFamily() ends all tokens of a family when one is reused. 47 tests pass.",
        ),
    ),
    (
        (
            "The staging deploy failed tonight. Can you look?",
            (
                ("run", "fly logs --app atlas-staging", "Error: connect ECONNREFUSED 10.0.0.12:5432\n" * 14),
                ("read_file", "fly.toml", "[env]\n  DATABASE_HOST = '10.0.0.12'\n  PORT = '8080'\n" * 3),
            ),
            "It cannot reach the database: ECONNREFUSED 10.0.0.12:5432. fly.toml still names the old host; the database moved to db.internal.",
        ),
        (
            "Right, we moved it on Monday. Use db.internal from now on, never the IP.",
            (
                ("edit_file", "fly.toml", "DATABASE_HOST = 'db.internal'"),
                ("run", "fly deploy --app atlas-staging", "v38 deployed, 2 machines healthy"),
            ),
            "fly.toml uses db.internal now. Version v38 is on staging, both machines are healthy.",
        ),
        ("Great, staging works again.", (), "Good. I have noted that the database is addressed as db.internal."),
    ),
    (
        (
            "Let's start with Fastify. Budget for the move is two days.",
            (
                ("run", "npm install fastify@5", "added 31 packages in 4 s"),
                (
                    "write_file",
                    "server/app.ts",
                    "const app = Fastify({ logger: true })\napp.register(authRoutes, { prefix: '/api/auth' })",
                ),
                (
                    "run",
                    "npm test",
                    "Tests: 39 passed, 8 failed\n" + "FAIL server/users.test.ts: app.listen is not a function\n" * 8,
                ),
            ),
            "Fastify 5 is in. Eight tests of users.test.ts fail because they call app.listen; they should use app.inject instead.",
        ),
        (
            "Use app.inject then. How long are refresh tokens valid, by the way?",
            (
                ("edit_file", "server/users.test.ts", "8 tests use app.inject"),
                ("run", "npm test", "Tests: 47 passed"),
            ),
            "All 47 tests pass with app.inject. Refresh tokens are valid for 30 days, as you decided.",
        ),
    ),
)
