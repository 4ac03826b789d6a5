-- select_items --
SELECT namespace, key, value, created_at, updated_at FROM items

-- get_item --
{select_items} WHERE resource = :resource AND namespace = :namespace AND key = :key

-- items_under --
-- The namespaces are JSON lists, and `prefix` is the beginning of such a list, up to the end of a label.
{select_items} WHERE resource = :resource AND SUBSTR(namespace, 1, LENGTH(:prefix)) = :prefix
ORDER BY updated_at DESC, pk DESC

-- namespaces --
SELECT DISTINCT namespace FROM items WHERE resource = :resource AND SUBSTR(namespace, 1, LENGTH(:prefix)) = :prefix

-- put_item --
INSERT INTO items (resource, namespace, key, value, created_at, updated_at)
VALUES (:resource, :namespace, :key, :value, :now, :now)
ON CONFLICT (resource, namespace, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at

-- delete_item --
DELETE FROM items WHERE resource = :resource AND namespace = :namespace AND key = :key
