"""Classify sentences as statement, question, request or filler, and find confirmations, agreements, decisions and preferences.

The module also finds the listed items that a user chooses and the proposals of an assistant. The tables have common words of
several European languages. A sentence without any of these words is a statement.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from memolog.observer.extractive.sentences import STOP, Entry, Listing, is_name, weights_of, words_of
from memolog.text.word_lists import NUMBER_WORDS, QUESTION_MARKS, word_set

Act: TypeAlias = Literal["statement", "question", "request", "filler"]

_QUESTION: Final = re.compile(r"[?？؟][\"'”’)\s]*\Z")
_POLITE_OPENING: Final = (
    r"(?:(?:ok|okay|now|also|and|then|so|great|thanks|yes|hi|hello|hey|first|next|perfect|good|well)[,.!]? )*"
)
REQUEST: Final = re.compile(
    _POLITE_OPENING
    + r"(?:please|can you|could you|would you|will you|help me|tell me|give me|show me|let me know|explain|write"
    r"|create|make|add|fix|remove|change|update|rename|refactor|run|check|find|list|summari[sz]e|translate|generate|suggest"
    r"|recommend|describe|compare|implement|look|review|continue|provide|rewrite|convert|calculate|draft|design|build|test"
    r"|delete|move|use|try|put|keep|start|stop|set|send|show|deploy|open|close|do|go|i(?:'d| would) like you to|i (?:want"
    r"|need) you to"
    r"|bitte|kannst du|können sie|könntest du|por favor|puedes|podrías|peux-tu|pouvez-vous|pourriez-vous|s'il (?:te|vous) plaît"
    r"|请|請|帮我)\b",
    re.IGNORECASE,
)
_POLITE: Final = re.compile(
    r"(?:(?:ok|okay|hi|hello|hey|thanks|great|also|and|so|now)[,.!]? )*(?:please |can you (?:please )?|could you (?:please )?"
    r"|would you (?:please )?|will you (?:please )?|help me (?:to |with )?|i(?:'d| would) like (?:you )?to |i (?:want"
    r"|need) (?:you )?to "
    r"|let's |do you (?:know|have|think)(?: if| of| whether| any)? |i was wondering (?:if|whether) you (?:could|can) "
    r"|tell me (?:about )?"
    r"|(?:recommend|suggest|give me|show me|find me|find) |kannst du |könntest du |bitte |puedes |podrías |por favor,? |peux-tu "
    r"|pouvez-vous |pourriez-vous )+",
    re.IGNORECASE,
)
_ASKS_YOU: Final = re.compile(
    r"\b(?:can|could|would|will|do) you\b|\b(?:kannst|könntest|können|könnten|würdest) (?:du|sie)\b|\b(?:puedes|podrías|puede"
    r"|podría)\b"
    r"|\b(?:peux-tu|pouvez-vous|pourrais-tu|pourriez-vous)\b|\bplease\b|\bbitte\b|\bpor favor\b|\bs'il (?:te|vous) plaît\b",
    re.IGNORECASE,
)
ABOUT_SELF: Final = re.compile(
    r"\b(?:I|I'm|I've|I'd|I'll|i|i'm|i've|[Mm]y|me|mine|[Ww]e|[Ww]e're|[Ww]e've|[Oo]ur|us|[Ii]ch|mir|mich|[Mm]ein\w*|[Ww]ir"
    r"|uns\w*"
    r"|[Yy]o|[Mm]i|[Mm]is|[Mm]e|nos|[Nn]uestr\w+|[Jj]e|[Mm]on|[Mm]a|[Mm]es|[Nn]ous|[Nn]otre)\b|\b[Jj]['’]|我|私|僕|أنا|我们"
)
# A question that also states a fact: it begins like a statement, or it contains a clause about the user.
_TELLS: Final = re.compile(
    r"(?:(?:and|but|so|also|well|ok|okay|hi|hello|hey|actually|by the way|btw|anyway|yes|no|thanks|great)[,.!]? )*"
    r"(?:i|i['’](?:m|ve|d|ll)|we|we['’](?:re|ve|d|ll)|my|our|since i|as i|ich|wir|mein\w*|da ich|weil|yo|mi|mis|como|tengo"
    r"|soy|estoy|je|j['’]"
    r"|nous|mon|ma|mes|comme)\b(?! (?:should|can|could|do|need to|must|soll|kann|muss|dois|puedo|debo)\b)"
    r"|.{0,300}\b(?:I['’](?:ve|m)|I (?!can\b|could|should|do\b|did\b|must|need|would|might|may\b|will|shall|have to|ought"
    r"|want to know)[a-z]{2,}"
    r"|my (?:wife|husband|son|daughter|mother|mom|father|dad|sister|brother|dog|cat|boss|partner|kids?|friend)s?\b)",
    re.IGNORECASE | re.DOTALL,
)
# A possession with a name, such as "my Sony A7R IV".
_OWNS: Final = re.compile(
    r"\b(?:my|our|mein\w*|unser\w*|mi|mis|nuestr\w+|mon|ma|mes|notre|nos) (?:[a-zà-ÿ-]+ ){0,2}(?:[A-ZÀ-Þ]|\d)"
)
# Words that begin a clause that asks.
_ASKING: Final = (
    r"is|are|was|were|can|could|should|shall|do|does|did|will|would|may|what|what['’]s|which|how|when|where|who|why|any|have|has"
    r"|geht|kann|können|ist|sind|darf|dürfen|soll|sollen|gibt|was|wie|wo|wann|welche\w*|wer|muss|müssen|hast|habt"
    r"|pued\w+|podemos|hay|qué|cómo|cuánd\w*|cuánt\w*|dónde|cuál\w*|debo|debería\w*|est-\w+|peut|puis|peux|peut-on"
    r"|faut-il|quel\w*"
    r"|comment|quand|où|combien|è|posso|possiamo|può|si può|come|cosa|che|quale|quant\w|dove|c['’]è|pode\w*|há|como|qual|onde"
    r"|\w+t (?:der|die|das|es|man|ihr|er|sie)|kan|kunnen|mag|moet|wat|hoe|waar|welke"
)
# A clause that states a fact, followed by a clause that asks.
_THEN_ASKS: Final = re.compile(
    rf"(?!\W*(?:{_ASKING}|if|when|for|in|on|at|with|after|before|while|as|about|besides|apart|wenn|falls|für|mit|bei"
    rf"|nach|vor|si|se"
    rf"|quando|cuando|con|para|por|en|quand|avec|pour|dans|après|per|dopo|als|voor|na|met)\b)"
    rf"(?P<told>.{{12,300}}?)(?:, | - | – |: |; )¿?(?:and |but |so |und |aber |y |pero |et |e |ma |en )?(?:{_ASKING})\b",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSE_WORDS: Final = 4
# A question without a question mark.
_ASKS: Final = re.compile(
    r"(?:(?:ok|okay|and|so|also|but|hi|hey)[,.!]? )*(?:what|which|who|where|how|when|why)"
    r"(?:['’]?s| is| are| was| were| do| does| did| can| could| should| would| will| to| many| much| long| about)\b",
    re.IGNORECASE,
)
_NEGATION: Final = (
    r"not|never|no|none|nothing|nobody|without|don['’]?t|doesn['’]?t|isn['’]?t|aren['’]?t|won['’]?t|can['’]?t|cannot"
    r"|mustn['’]?t|shouldn['’]?t"
    r"|avoid|except|kein\w*|nicht|nie|niemals|ohne|außer|jamás|nunca|sin|ningun\w*|tampoco|excepto|nada de|nadie"
    r"|evit\w+|jamais|sans|aucune?|pas|sauf|rien|mai|senza|nessun\w*|niente|tranne|vietat\w*|não|nunca"
    r"|sem|nenhum\w*|exceto|niet|geen|nooit|zonder|behalve|verboten\w*|prohibid\w*|interdit\w*"
)
_CONSTRAINT: Final = re.compile(
    rf"\b(?:{_NEGATION}|must|always|only|at most|at least|no more than|up to|maximum|minimum|max|min|limit\w*|deadline"
    rf"|required?|rule"
    r"|remember|note that|keep in mind|make sure|important|immer|nur|muss|müssen|darf|dürfen|höchstens|mindestens|wichtig"
    r"|siempre|solo|sólo"
    r"|debe\w*|tiene que|como máximo|importante|toujours|seulement|uniquement|il faut|doit|doivent|au plus"
    r"|au moins)\b|必须|不要|不能"
    r"|ない|ません|禁止|だめ|必ず|絶対",
    re.IGNORECASE,
)
_HEALTH: Final = re.compile(
    r"\b(?:allerg\w*|alérgic\w*|intoleran\w*|intolérant\w*|unverträglich\w*|asthma\w*|diabet\w*|celiac|coeliac|zöliakie"
    r"|pregnant|schwanger\w*"
    r"|embarazada|enceinte|vegan\w*|vegetari\w*|végétari\w*|veget\w*|gluten\w*|medication|medicine|pills?|dose|\d+ ?m[gl]\b"
    r"|blood pressure|pain"
    r"|schmerz\w*|dolor|douleur\w*|doctor|arzt|médico|médecin)\b|过敏|アレルギー",
    re.IGNORECASE,
)
_DECISION: Final = re.compile(
    r"\b(?:decided|decision|let['’]s|we['’]ll use|going with|go with|went with|chose|choose|picked|switch(?:ed|ing)?|instead"
    r"|rather than"
    r"|agreed|no longer|move[ds]? (?:to|from)|stop(?:ped)? using|change[ds]? (?:to|from|our|my)|must|never|always|make it|keep it"
    r"|entschieden|entscheiden|statt|stattdessen|doch lieber|decidido|decidimos|decidí|elegí|elegimos|en vez de|en lugar de|mejor"
    r"|décidé|choisi|plutôt|au lieu de)\b|决定|決め",
    re.IGNORECASE,
)
_PREFERENCE: Final = re.compile(
    r"\b(?:prefer\w*|favou?rite|love|like|enjoy|hate|dislike|can['’]t stand|fan of|mag|lieber|gern\w*|am liebsten|hasse"
    r"|prefiero|preferimos"
    r"|me gusta\w*|odio|encanta\w*|préfère\w*|préférons|aime\w*|adore|déteste)\b|喜欢|好き",
    re.IGNORECASE,
)
_PREFERS: Final = re.compile(r"\b(?:prefer\w*|favou?rite|hate|lieber|prefiero|préfère)\b", re.IGNORECASE)
_MONEY: Final = re.compile(r"[€$£¥]\s?\d|\d\s?(?:[€$£¥%]|euros?\b|dollars?\b|bucks\b)", re.IGNORECASE)
_PLAN: Final = re.compile(
    r"\b(?:will|going to|gonna|plan(?:ning|ned)?|i['’]ll|we['’]ll|intend|tomorrow|next (?:week|month|year)|upcoming"
    r"|schedul\w+|appointment"
    r"|meeting|booked|reserv\w+|deadline|by (?:mon|tues|wednes|thurs|fri|satur|sun)day|werde\w*|morgen|termin\w*|gebucht|cita"
    r"|mañana|reunión"
    r"|reservado|rendez-vous|demain|réunion|réservé)\b|打算|予定",
    re.IGNORECASE,
)
_CORRECTION: Final = re.compile(
    r"\b(?:actually|correction|i meant|i mean|sorry, (?:it|that|the|i)|not .{1,30}, but|wrong|mistake|instead|changed"
    r"|switched|moved|replaced"
    r"|no longer|any ?more|updated?|now it['’]?s|eigentlich|doch nicht|sondern|korrektur|falsch|geändert|nicht mehr|jetzt"
    r"|en realidad|corrección"
    r"|ya no|sino|cambiad\w|cambió|en fait|correction|ne .{1,30} plus|finalement|changé)\b|\w,? not \w",
    re.IGNORECASE,
)
# A measure, a price, a count or a date. The number of a list item does not match.
_FIGURE: Final = re.compile(
    r"[€$£¥]\s?\d|\d[\d.,:/]{0,20}\s?(?:[€$£¥%°]|[^\W\d_]{1,12}\b)|\b\d+[.:]\d|#[0-9a-f]{6}\b|\b\d{3,}\b", re.IGNORECASE
)
_COUNTS: Final = "|".join(word for language in ("en", "de", "es", "fr") for word in NUMBER_WORDS[language][2:])
_COUNTED: Final = re.compile(rf"\b(?:{_COUNTS}|twenty|thirty|hundred|twice|once|einmal|zweimal)\b", re.IGNORECASE)
_WEIGHTY: Final = (_CONSTRAINT, _HEALTH, _DECISION, _PREFERENCE, _CORRECTION, _FIGURE, _COUNTED)
# Instructions for all later work, as opposed to a single task.
_DIRECTIVE: Final = re.compile(
    _POLITE_OPENING
    + r"(?:please |bitte |por favor,? )?(?:use|keep|stop|avoid|stick|switch|call|name|prefer|leave|treat"
    r"|nimm|nutze|verwende|behalte|lass|usa|utiliza|mantén|evita|utilise|garde|évite)\b",
    re.IGNORECASE,
)
# Requests to change, book or cancel something. Such a request also states a fact, the new state.
_CHANGES: Final = re.compile(
    r"\b(?:move|reschedul\w*|postpone|push|bring forward|change|switch|swap|replace|rename|cancel|bump|raise|lower|increase"
    r"|reduce|extend|shorten|set|book|reserve|(?:call|make) (?:it|them|that)"
    r"|verschieb\w*|verleg\w*|änder\w*|umbuch\w*|buch\w*|reservier\w*|stornier\w*|absag\w*|wechsel\w*|ersetz\w*"
    r"|umbenenn\w*|cambi\w*|mover|mueve\w*|aplaza\w*|cancela\w*|reserva\w*|reemplaz\w*"
    r"|changer|déplace\w*|reporter|annule\w*|remplace\w*|réserve\w*|renomme\w*)\b",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"\"[^\"]{2,}\"|“[^”]{2,200}”|„[^“”]{2,200}[“”]|«[^»]{2,200}»|`[^`]{2,}`")
# Words before the old choice or state that is no longer true.
_REPLACED: Final = re.compile(
    r"\b(?:(?:switch|chang|mov|convert|migrat|transfer)\w*(?: \w+){0,4}? from|instead of|rather than|no longer|not any ?more"
    r"|stopped|quit"
    r"|cancel(?:led|ed)?|replac(?:es?|ed|ing)|gave up|got rid of|used to|statt|anstatt|anstelle von|nicht mehr"
    r"|von(?= (?:\w+ ){1,4}(?:auf|zu|nach) )"
    r"|en vez de|en lugar de|ya no|cambi\w+ de|au lieu de|plutôt que|remplac\w+|ne (?:\w+ )?plus)"
    r" (?P<what>(?:[\w.@/+-]+ ?){1,6})|, not (?P<not>(?:[\w.@/+-]+ ?){1,4})",
    re.IGNORECASE,
)
# Words before the new choice, its date or its reason. They end the words about the old choice.
_NEW: Final = re.compile(
    r"\b(?:to|by|with|since|because|auf|zu|nach|durch|seit|weil|a|por|desde|porque|à|par|depuis|dès|car|parce)\b",
    re.IGNORECASE,
)
_CONFIRMS: Final = re.compile(
    r"\b(?:(?:it|that|this|everything|all|login|build)(?: now| all)? (?:works?|worked|passes|passed)|(?:it|that"
    r"|this)(?:'s| is| was) (?:now )?(?:fixed|working|done|solved|merged|deployed)|works (?:now|great|fine|perfectly|as expected)"
    r"|tests? (?:all )?pass(?:es|ed)?|that did it|lgtm|problem solved|confirmed|(?:das|es) (?:funktioniert|geht"
    r"|klappt)(?: jetzt)?"
    r"|(?:ya )?funciona(?: ya)?|ça marche)\b",
    re.IGNORECASE,
)
_DENIES: Final = re.compile(
    r"\b(?:not|no|never|still|but|if|once|unless|until|nicht|noch|aber|wenn|pas|mais|si|\w+n't)\b|[?？؟]", re.IGNORECASE
)
_COURTESY: Final = (
    "please|bitte|por favor|thanks|thank you|danke|gracias|merci|grazie|obrigad[oa]|bedankt|dank je|great|perfect|good|fine|nice"
    "|cool|then|s'il (?:te|vous) plaît|per favore|alsjeblieft|ありがとう(?:ございます)?"
)
# Phrases that accept a proposal.
_DO: Final = (
    r"(?:let['’]s )?do (?:that|it|so|this)(?: like that| that way| this way)?|let['’]s go (?:with (?:that|it)|ahead)"
    r"|go ahead|go for it"
    r"|please do|proceed|carry on|make it so|works for me|fine by me|deal|i agree|agreed|sounds good|good idea|great idea"
    r"|(?:so )?machen wir(?:['’]s| das| es| so)?|mach(?:t|en sie)? (?:das|es)(?: so)?|einverstanden"
    r"|hazlo(?: así)?|hagámoslo(?: así)?|(?:lo )?hacemos así|así lo hacemos|adelante|de acuerdo"
    r"|(?:on fait|faisons|fais|faites)(?: comme)? (?:ça|cela)|vas-y|allez-y|d['’]accord"
    r"|facciamo(?:lo)? così|fai così|fallo|procedi|d['’]accordo|va bene(?: così)?|faz isso|faça isso|vamos fazer isso|combinado"
    r"|doe dat(?: maar)?|doen we|akkoord|そうしましょう|そうします|それで(?:お願いします|いいです)|お願いします|就这样|可以"
)
_YES: Final = re.compile(
    rf"(?:(?:yes|yeah|yep|yup|sure|ok|okay|exactly|correct|right|of course|absolutely|ja|gerne|genau|klar|sí|si|claro|vale|exacto"
    rf"|oui|bien sûr|exactement|sì|certo|esatto|sim|claro que sim|prima|graag|好的?|是的?|はい|{_DO}"
    rf"|{_COURTESY})[\s.,!;。、！]*+){{1,12}}",
    re.IGNORECASE,
)
_AGREES: Final = re.compile(rf"(?:(?:{_YES.pattern}))?(?:{_DO})(?!\w)", re.IGNORECASE)
_NO: Final = re.compile(
    rf"(?:(?:no|nope|nah|not really|rather not|nein|lieber nicht|non|不|いいえ|{_COURTESY})[\s.,!;]*+){{1,12}}",
    re.IGNORECASE,
)
_THANKS: Final = re.compile(rf"(?:(?:{_COURTESY})[\s.,!;]*+){{1,12}}", re.IGNORECASE)
_FILLER_WORDS: Final = word_set("""
    a again ah all alright also am amazing an and appreciate are as awesome be best bet bye certainly cheers cool
    could course day definitely dear do evening everything excellent exciting fantastic fine for friend fun glad good
    goodbye got great greetings guys had haha hahaha happy have hear hello help helpful helped helping hey hi hmm hope
    how i i'd i'll i'm i've idea ideas in info information input insight insightful interesting is it it's it'll job
    just kind later let's lol looking forward lot lots love lovely luck makes many me morning much my nice night
    no-problem now of oh ok okay perfect please pleasure problem quick really right say see sense so sound sounds
    super sure talk thank thanks that that's that'll the then there these this tips to today tomorrow too tu ty thx
    totally true understand understood useful very wait was way we week weekend welcome well what wonderful worries
    would wow yay yeah yes you you'd you're you've your yourself hallo moin servus danke dank vielen schön schönen
    schönes guten tag abend abends klasse prima toll super genau gut alles klar liebe grüße tschüss wochenende ja gern
    gerne wunderbar perfekt ihnen dir euch für die der das ist hilfe auch sehr noch hola gracias muchas muy bien
    buenos días buenas tardes noches genial perfecto vale claro estupendo adiós hasta luego saludos por la el ayuda tu
    su sí fin semana buen bonjour bonsoir salut merci beaucoup bien très super parfait génial d'accord oui bon bonne
    journée soirée week-end aide pour votre ton voilà à bientôt au revoir exacto uf uff buff zut miam mince génial
    buena tutto mille molto davvero und y et ta tout todo
""")
# Praise and thanks: "That sounds like a solid plan!", "Thanks again for all the tips".
_PRAISE: Final = re.compile(
    r"(?:(?:thanks|thank you|ta|danke|gracias|merci|grazie|obrigad[oa]|bedankt)\b[^.,;!]*|(?:that"
    r"|this) sounds(?: [\w'’]+){1,5}|(?:wow, |oh, |ok, |yes, )?(?:that|this|it|these|those"
    r"|they)(?:['’]s|['’]re| is| are| all| both)?"
    r"(?: sounds?| looks?| seems?)?(?: like)?(?: (?:a|an|some|such|really|very|so|all|quite|pretty|definitely))*"
    r" (?:great|good|nice|awesome|solid|helpful|useful|fantastic|amazing|interesting|perfect|wonderful|excellent|cool|lovely"
    r"|brilliant)"
    r"(?: \w+){0,4})[\s.!]*\Z",
    re.IGNORECASE,
)
# Acknowledgements: "I'll definitely check those out".
_HEARD: Final = re.compile(
    r"(?:(?:ok|okay|great|cool|nice|yes|sure|thanks|perfect)[,!.]? )?I(?:['’]ll| will| should| can)(?: (?:definitely"
    r"|certainly|also|probably|surely|be sure to"
    r"|make sure to|have to|need to|try to|go and|start by))*"
    r" (?:check|try|look|keep|give|consider|do|read|start|take|see|think|go|use|get)\b(?: \w+){0,2}? (?:that|those|these|them"
    r"|it|this|both)\b(?: \w+){0,3}[\s.!]*\Z",
    re.IGNORECASE,
)
_APPROVES: Final = re.compile(
    r"(?:(?:very |really |so |oh |ah |ok |yes |haha )*(?:good (?:point|call|catch|idea|to know|one)|great (?:point"
    r"|idea|tip)|nice (?:one|idea)"
    r"|fair (?:enough|point)|makes sense|love (?:it|that|this)|brilliant|you['’]re right|true|"
    r"(?:sehr |ganz )?(?:gut(?:er|e)|schöne?r?|super) (?:idee|tipp|punkt)|stimmt|du hast recht|buena idea|buen consejo|exacto"
    r"|tienes razón|(?:très )?bonne idée|bien vu|exactement|tu as raison|vous avez raison|buon['’]?a? idea"
    r"|ottima idea|esatto|giusto"
    r"|hai ragione|boa ideia|tens razão|goed(?: idee|e tip)|je hebt gelijk))(?:\Z|[\s,.!…😂😅🙂:)-]+(?=\S|\Z))",
    re.IGNORECASE,
)
_IT: Final = re.compile(r"\b(?:that|this|it|das|es|eso|esto|lo|ça|cela|isso|dat)\b", re.IGNORECASE)
_IS: Final = re.compile(r"(?:is|was|are|were|ist|war|sind|es|era|son|est|était|sont|è|sono|é|são|was)\b", re.IGNORECASE)
_LAUGHS: Final = re.compile(
    r"[😂🤣😆😹]|\b(?:lol|lmao|rofl|mdr|ptdr|xd|(?:ha){2,}h?|(?:ja){2,}|(?:je){2,}|(?:kk){2,}|www)\b", re.IGNORECASE
)
# Polite phrases of several words.
_PHRASES: Final = re.compile(
    r"\b(?:will do|got it|no (?:worries|bother|problem)|good to know|love it|(?:no,? )?that(?:['’]s| is) all"
    r"|nothing else|you['’]ve been a star"
    r"|noted|brill|mach(?:e)? ich|wird gemacht|alles klar|bis (?:bald|dann|später)|das war['’]?s|eso es todo"
    r"|hasta pronto|nada más"
    r"|c['’]est tout|à bientôt|grazie mille|a presto|va bene|buon(?:a|o)? (?:idea|giornata|serata|weekend)|bellissimo"
    r"|perfetto|ottimo|grazie"
    r"|tutto qui|you're right|du hast recht|tienes razón|tu as raison|vous avez raison|hai ragione|ciao|buongiorno"
    r"|obrigad[oa]|até logo|bom dia|ótimo|perfeito|bedankt|dank je(?: wel)?|tot ziens|top|fijn|oké)\b"
    r"|ありがとう(?:ございま(?:す|した))?|どうも|すごい|なるほど|わかりました|了解(?:です|しました)?|助かり(?:ます"
    r"|ました)|いいですね|はい|こんにち[はわ]"
    r"|こんばん[はわ]|おはよう(?:ございます)?|おやすみ(?:なさい)?|お疲れ様(?:です|でした)?|よろしくお願いします"
    r"|また相談します|谢谢|好的|你好|再见",
    re.IGNORECASE,
)
_NEGATIVE: Final = re.compile(rf"\b(?:{_NEGATION})\b", re.IGNORECASE)
_TOKEN: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+")
OPENING: Final = re.compile(
    r"(?:(?:sure|certainly|absolutely|of course|great|sorry|i apologi[sz]e|i hope|hope (?:this|that)|let me know"
    r"|feel free|i'm (?:glad|happy|sorry|thrilled|excited|always)|happy to|glad|here(?:'s| is| are)|please (?:note|let)"
    r"|if you (?:have|need|want|would)|that(?:'s| is) (?:a )?(?:great|good|excellent|fantastic|wonderful|awesome)"
    r"|you're welcome|good luck"
    r"|enjoy|remember|don't (?:hesitate|forget|be afraid)|by following|with (?:these|this)|i'd be happy|in conclusion|overall"
    r"|as an ai"
    r"|congratulations|what an? |it's (?:great|important|essential|wonderful)|would you like|do you have|what (?:do|are) you"
    r"|now, let's)\b"
    r"|(?:now |first,? |next,? |ok,? |okay,? |good[.,] )*(?:let me|i'll|let's|now i)\b)",
    re.IGNORECASE,
)
_OPENER: Final = re.compile(
    r"(?:(?:hi|hello|hey|hallo|hola|bonjour|thanks|thank you(?: so much)?|great|perfect|awesome|wow|oh|ah|haha|lol|ok|okay"
    r"|cool|nice|good"
    r"|danke|gracias|merci|super|by the way|btw|anyway|übrigens|por cierto|au fait)(?: there| again| all)?[,!.]+ )+(?=\w)",
    re.IGNORECASE,
)

# Maximum characters of filler and of a "yes" or "no", and maximum words of an acknowledgement, or characters in a script without
# spaces.
_MAX_FILLER: Final = 120
_MAX_ANSWER: Final = 80
_HEARD_WORDS: Final = 3
_HEARD_SIGNS: Final = 8


def act_of(sentence: str) -> Act:
    """Return the kind of a sentence. A question that also states a fact is a statement."""
    if is_filler(sentence):
        return "filler"
    if _QUESTION.search(sentence) or _ASKS.match(sentence):
        tells = _TELLS.match(sentence) or _OWNS.search(sentence) or _tells_first(sentence) or _chooses(sentence)
        return "statement" if tells or (_ASKS_YOU.search(sentence) and _binds(sentence)) else "question"
    if REQUEST.match(sentence):
        # A request with a name or a condition is a statement.
        tells = weighs(sentence) or names_something(sentence) or agrees(sentence)
        return "statement" if tells else "request"
    return "statement"


def _tells_first(sentence: str) -> bool:
    """Return whether a question begins with a clause that states a fact: "She takes 2 mg, is that much?"."""
    hit = _THEN_ASKS.match(sentence)
    return hit is not None and len(hit["told"].split()) >= _CLAUSE_WORDS and not REQUEST.match(sentence)


def names_something(sentence: str) -> bool:
    """Return whether a sentence contains a name, a number or an identifier."""
    return any(weight > 1 for weight in weights_of(sentence).values())


def is_empty(sentence: str) -> bool:
    """Return whether a sentence of an assistant is only an acknowledgement: a few words without a name or a number."""
    words = words_of(sentence)
    is_short = len(words) <= _HEARD_WORDS if sentence.isascii() or len(words) > 1 else len(sentence) <= _HEARD_SIGNS
    return is_filler(sentence) or (is_short and not any(map(is_name, words[1:])) and not re.search(r"\d", sentence))


def _binds(sentence: str) -> bool:
    """Return whether a request in the form of a question contains a constraint or a change."""
    return _has(sentence, _HEALTH, _NEGATIVE, _PREFERS, _MONEY) or bool(
        _CHANGES.search(sentence) and (names_something(sentence) or _COUNTED.search(sentence))
    )


def _has(sentence: str, *patterns: re.Pattern[str]) -> bool:
    return any(pattern.search(sentence) for pattern in patterns)


def weighs(sentence: str) -> bool:
    """Return whether a sentence is important: it has a limit, a preference, a decision, a correction, a figure or a quotation."""
    return bool(_DIRECTIVE.match(sentence)) or _has(sentence, *_WEIGHTY, _QUOTED)


def is_ask(sentence: str) -> bool:
    """Return whether a sentence is a question or a request."""
    return bool(_QUESTION.search(sentence) or REQUEST.match(sentence) or _ASKS.match(sentence))


def is_filler(sentence: str) -> bool:
    """Return whether a sentence is only thanks, a greeting, laughter or praise."""
    if len(sentence) > _MAX_FILLER:
        return False
    is_praise = _PRAISE.match(sentence) or _HEARD.match(sentence)
    if (is_praise and not _has(sentence, _NEGATIVE, _FIGURE)) or _is_reaction(sentence):
        return True
    rest = _PHRASES.sub(" ", sentence.lower().replace("’", "'"))
    words = _TOKEN.findall(rest)
    if not words:
        # The sentence is filler if it has only punctuation and emoji.
        return not any(character.isalnum() for character in rest)
    return all(word in _FILLER_WORDS or _is_laughter(word) for word in words) and not _NEGATIVE.search(rest)


def _is_reaction(sentence: str) -> bool:
    """Return whether a sentence only approves of the words of the assistant or laughs about them."""
    if approval := _APPROVES.match(sentence):
        rest = sentence[approval.end() :].strip()
        is_about_it = not rest or _IT.search(rest)
    elif _QUOTED.search(sentence) and _LAUGHS.search(sentence):
        # In '"A pile of receipts" is so fitting haha', the quoted words are those of the assistant.
        rest = _LAUGHS.sub(" ", _QUOTED.sub(" ", sentence)).strip(" ,.!")
        is_about_it = not rest or (_IS.match(rest) and not ABOUT_SELF.search(rest))
    else:
        return False
    return bool(is_about_it) and not names_something(f". {rest}") and not _has(rest, *_WEIGHTY, _PLAN)


def _is_laughter(word: str) -> bool:
    return set(word) <= set("haeijlox") and any(sound in word for sound in ("ha", "lol", "xd", "je"))


def without_opening(sentence: str) -> str:
    """Return a sentence without the greeting or the thanks at its beginning."""
    hit = _OPENER.match(sentence)
    if hit is None:
        return sentence
    rest = sentence[hit.end() :]
    return rest[:1].upper() + rest[1:]


def without_request(sentence: str) -> str:
    """Return a request without its polite opening, such as "Can you please"."""
    hit = _POLITE.match(sentence)
    return sentence[hit.end() :] if hit and len(sentence) > hit.end() else sentence


_INTENT: Final = re.compile(
    r"(?:(?:i|we|ich|wir|yo|je|nous)(?:['’](?:m|ve|d|re|ll)| (?:am|are|have been|was|would|will)"
    r"|(?= (?:plan|want|need|like|möchte|wollen|suche|brauche|plane|voudrais|veux|cherche|prépare)))"
    r"(?: been)?(?: (?:currently|just|also|really|actually))*"
    r"(?: (?:planning|plan|thinking (?:of|about)|looking (?:for|to|into)|trying to|interested in|going to|want(?: to)?"
    r"|need(?: to)?|like to|working on"
    r"|wondering (?:if|about|whether)|möchten?|will|wollen|suche|suchen|brauche|brauchen|plane|planen|voudrais|veux|cherche"
    r"|prépare))?"
    r"|quiero|queremos|necesito|busco|estoy (?:buscando|planeando)|write|create|make|find|recommend|suggest|give|tell|show"
    r"|explain)\s+"
    r"(?:to |for )?(?:(?:a|an|the|some|my|our|me|ein|eine|einen|un|una|une|le|la) )*",
    re.IGNORECASE,
)


WISHES: Final = re.compile(
    r"(?:[\w']+[,!.]? ){0,2}?(?:(?:i|we)(?:['’](?:m|re|d|ve)| am| are| would| have)?(?: \w+)? (?:want|need|looking"
    r"|planning|plan|thinking|like to"
    r"|searching|trying)\b|(?:ich|wir) (?:möchten?|wollen|will|suchen?|brauchen?|planen?)\b|(?:quiero|queremos"
    r"|necesito|necesitamos|busco"
    r"|buscamos|me gustaría)\b|(?:je|nous|on) (?:voudr\w+|veux|veut|voulons|cherch\w+|prépar\w+|aimer\w+)\b|j['’]aimerais\b"
    r"|(?:vorrei|vorremmo|cerco|cerchiamo|mi serve|voglio)\b|(?:quero|queria|preciso|procuro)\b|(?:ik|we) (?:wil"
    r"|willen|zoek\w*)\b)",
    re.IGNORECASE,
)


_ANNOUNCEMENT: Final = re.compile(
    r"(?:this (?:thread|chat|conversation|session) (?:is about|is for|concerns|covers)"
    r"|(?:here|in this (?:thread|chat|conversation|session)),? (?:we|i) (?:(?:will |want to )?(?:talk|speak|chat) about|discuss)"
    r"|(?:now|next|today)(?:,| we (?:talk|speak) about| we discuss)?(?= (?:the|a|an|our|my) ))\s+"
    r"(?:(?:the|a|an|our|my) )?",
    re.IGNORECASE,
)


def announced_subject(sentence: str) -> str | None:
    """Return the subject that a sentence such as "This thread is about the server" announces, or None."""
    text = without_opening(sentence).strip(" .!?")
    hit = _ANNOUNCEMENT.match(text)
    return text[hit.end() :] if hit and len(text) > hit.end() else None


def subject_of(sentence: str) -> str:
    """Return the subject of a sentence, without its greeting, its polite opening and words such as "I'm looking for"."""
    text = without_request(without_opening(sentence)).strip(" .!?")
    hit = _INTENT.match(text)
    return text[hit.end() :] if hit and len(text) - hit.end() > 2 * _FEW_WORDS else text


def answer_of(message: str) -> Literal["yes", "no"] | None:
    """Return "yes" or "no" if a message only agrees or only declines, and None for any other message."""
    words = re.sub(r"[^\w\s.,!;'’-]", "", message).strip() if len(message) <= _MAX_ANSWER else ""
    if not words or _THANKS.fullmatch(words):
        return None
    return "yes" if _YES.fullmatch(words) else "no" if _NO.fullmatch(words) else None


_POINTS: Final = re.compile(
    r"(?:\W{0,3}\b\w{1,30}\b){0,3}?\W{0,3}\b(?:it|that|this|them|those|these|they|one|ones|both|he|she|his|her|es|das"
    r"|ihn|sie|die|eso|esto|ese"
    r"|lo|los|ça|cela|ceux)\b",
    re.IGNORECASE,
)
_FEW_WORDS: Final = 2


def dangles(sentence: str) -> bool:
    """Return whether a sentence begins with a pronoun, so that its subject is in an earlier sentence."""
    hit = _POINTS.match(sentence)
    if hit is None:
        return False
    return len([word for word in words_of(hit[0])[:-1] if word.lower() not in STOP]) < _FEW_WORDS


def agrees(message: str) -> bool:
    """Return whether a message begins with words that accept a proposal, such as "Let's do that"."""
    return bool(_AGREES.match(message))


def confirms(message: str) -> bool:
    """Return whether a message states that the work is finished or works."""
    return any(_CONFIRMS.search(piece) and not _DENIES.search(piece) for piece in re.split(r"(?<=[.!])\s|\n", message))


def replaced_in(sentence: str) -> str:
    """Return the old choice that a sentence replaces, or an empty string: "MySQL " for "from MySQL to Go"."""
    return " ".join(_NEW.split(hit["what"] or hit["not"])[0] for hit in _REPLACED.finditer(sentence))


def category_of(text: str) -> str:
    """Return "decision", "preference", "plan" or "fact"."""
    if _DECISION.search(text):
        return "decision"
    if _PREFERENCE.search(text) or _HEALTH.search(text):
        return "preference"
    return "plan" if _PLAN.search(text) else "fact"


# ---------------------------------------------------------------- choices among listed items

_NAMES: Final = (
    "number|no\\.|option|item|choice|idea|nummer|nr\\.|variante|vorschlag|punkt|número|opción|numéro|n[°º]|numero|opzione|opção"
    "|optie|keuze"
)
_ARTICLES: Final = "the|die|der|das|den|la|el|le|il|lo|las|los|les|a|o|as|os|de|het"
# Words that may follow the number of a chosen item. Before other words, a number is a count or a date.
_FOLLOWS: Final = (
    "sounds?|looks?|seems?|feels?|works?|is|are|was|would|please|then|for|it|we|i|and|or|but|maybe|too|also"
    "|klingt|klingen|ist|sind|wäre|wären|gefällt|gefallen|passt|passen|nehmen|nehme|finde|bitte|und|oder|aber|für|wir|ich"
    "|me|nos|nous|suena|suenan|parece|parecen|es|son|por|para|y|pero|semble|est|sont|va|vont|s'il|et|ou|mais|pour"
    "|mi|ci|ti|sembra|sembrano|è|sono|le|la|li|lo|e|o|ma|per|é|são|mas|klinkt|lijkt|zijn|en|of|maar|voor"
)
_END: Final = rf"(?=\s*(?:\Z|[;!?)…。！、]|[.,](?!\d)|(?:{_FOLLOWS})\b))"
# A number after one of these words is an hour, a day or a page.
_MEASURES: Final = re.compile(
    r"\b(?:at|by|until|till|from|to|since|of|on|in|um|bis|von|vom|ab|seit|gegen|am|zum|a las?|desde|hasta|del|al|à|du"
    r"|au|alle|dalle"
    r"|dal|às|om|tot|van|op|page|chapter|day|room|version|seite|tag|día|jour|giorno|dia|dag)\s\Z",
    re.IGNORECASE,
)
_ORDINAL_WORDS: Final = (
    ("first", "erste[nrs]?", "primer[ao]?", "premi(?:er|ère)", "prim[ao]", "primeir[ao]", "eerste"),
    ("second", "zweite[nrs]?", "segund[ao]", "deuxième", "second[aoe]", "tweede"),
    ("third", "dritte[nrs]?", "tercer[ao]?", "troisième", "terz[ao]", "terceir[ao]", "derde"),
    ("fourth", "vierte[nrs]?", "cuart[ao]", "quatrième", "quart[ao]", "vierde"),
    ("fifth", "fünfte[nrs]?", "quint[ao]", "cinquième", "vijfde"),
    ("sixth", "sechste[nrs]?", "sext[ao]", "sixième", "sest[ao]", "zesde"),
    ("seventh",),
    ("eighth",),
    ("ninth",),
    ("tenth",),
)
_LAST: Final = "last|letzte[nrs]?|últim[ao]|derni(?:er|ère)|ultim[ao]|laatste"
_ORDINAL: Final = "|".join(words for row in _ORDINAL_WORDS for words in row)
_REFERENCE: Final = re.compile(
    rf"(?:\b(?:{_NAMES})\s?|#)(?P<named>\d{{1,2}})\b(?![.,]\d|%)"
    rf"|(?<![\w.,:/€$£-])(?:(?:{_ARTICLES}) )?(?P<bare>\d{{1,2}})(?![\w%€$£°]){_END}"
    r"|(?P<counter>\d{1,2}|[一二三四五六七八九])(?:番(?!線|地|街|組)|つ目|号(?!室|線))"
    r"|第(?P<place>[一二三四五六七八九]|\d)(?:个|個)"
    rf"|\b(?:{_ARTICLES}) (?P<ordinal>{_ORDINAL}|{_LAST})(?: (?:one|option|item|choice|idea|suggestion)\b|{_END})",
    re.IGNORECASE,
)
_FIRST_FEW: Final = re.compile(r"\bthe first (two|three|four|five|[2-5])\b(?! \w+s\b)", re.IGNORECASE)
_DIGITS: Final = "一二三四五六七八九"
_CHOOSES: Final = re.compile(
    r"\b(?:take|taking|pick(?:ed)?|choose|chose|go(?:ing)? (?:with|for)|went with|prefer|like|love|want|try|sounds?|looks?|seems?"
    r"|works|perfect|great|good|please|for (?:now|me|us)|it is|let['’]s|booked|keep|definitely|obviously"
    r"|nehm\w*|wähl\w*|bevorzug\w*|lieber|gefällt|gefallen|klingt|klingen|passt|perfekt|bitte|machen wir|möchte\w*|wollen"
    r"|elij\w*|eleg\w*|escoj\w*|cojo|cogemos|prefier\w*|gusta\w*|encanta\w*|quedo|quedamos|quiero|queremos"
    r"|perfect[ao]|mejor|hacemos"
    r"|prends|prenons|choisi\w*|préfèr\w*|va pour|plaît|plaisent|aime\w*|veux|voudr\w+|parfait\w*|faisons|tente\w*"
    r"|prend\w*|scelg\w*|scegli\w*|prefer\w*|piac\w*|va bene|vada per|facci\w*|perfett\w*|vogli\w*|meglio"
    r"|escolh\w*|prefir\w*|gost\w*|fic(?:o|amos) com|quer\w*|perfeit[ao]|neem|nemen|kies|kiezen|liever|leuk|klinkt|graag)\b"
    r"|にします|にする|がいい|お願い|を選|好き|选|要|喜欢",
    re.IGNORECASE,
)
_WHICH: Final = re.compile(
    r"\W*(?:(?:and|but|so|und|y|et|e) )?(?:what|which|who|where|how|when|why|is|are|was|do|does|did|can|could|should|would|will"
    r"|welche\w*|was|wie|wo|ist|sind|kann|qué|cuál\w*|cómo|quel\w*|comment|est-ce|qual\w*|cosa|come|wat|welke|hoe)\b",
    re.IGNORECASE,
)
_ONLY_NUMBERS: Final = re.compile(
    r"\W*\d{1,2}(?:(?:\W+|\W+(?:and|und|y|et|e|en|or|oder|o|ou|of)\W+)\d{1,2})*\W*\Z", re.IGNORECASE
)
DESCRIBES: Final = re.compile(
    r"\b(?:the|that|this) (?P<one>(?:[\w'’-]+ ){1,6}?)ones?\b(?! of\b)"
    r"|\b(?:celui|celle|ceux|celles|quell[oaie]|aquel(?:la)?|the ones?) (?P<which>(?:[\w'’-]+ ?){1,6})",
    re.IGNORECASE,
)
_STEM: Final = 5


def _chooses(sentence: str) -> bool:
    """Return whether a sentence chooses an item by its number. The sentence may continue as a question."""
    return bool(
        _CHOOSES.search(sentence) and not _WHICH.match(sentence) and next(_references(sentence, is_choice=True), None)
    )


def _references(text: str, *, is_choice: bool) -> Iterator[tuple[int, bool]]:
    """Yield the numbers of the items to which a text refers, and whether a word such as "number" or "option" is with the number.

    The number 0 stands for the last item. Bare numbers and ordinals are read only if the text makes a choice (`is_choice`).
    """
    for hit in _FIRST_FEW.finditer(text):
        last = int(hit[1]) if hit[1].isdecimal() else NUMBER_WORDS["en"].index(hit[1].lower())
        yield from ((number, False) for number in range(1, last + 1))
    for hit in _REFERENCE.finditer(text):
        if hit["named"]:
            yield int(hit["named"]), True
        elif sign := hit["counter"] or hit["place"]:
            yield _DIGITS.index(sign) + 1 if sign in _DIGITS else int(sign), True
        elif hit["ordinal"]:
            if is_choice or hit[0].endswith(("one", "option", "item", "choice", "idea", "suggestion")):
                rows = enumerate(_ORDINAL_WORDS, 1)
                fits = (at for at, row in rows if re.fullmatch("|".join(row), hit["ordinal"], re.IGNORECASE))
                yield next(fits, 0), False
        elif is_choice and not _MEASURES.search(text[: hit.start()]):
            yield int(hit["bare"]), False


def numbered(text: str, listings: Sequence[Listing], question: str, *, is_last: bool) -> list[tuple[Entry, Listing]]:
    """Return the items that a user chooses by number. A number that occurs in several lists is skipped.

    A text of numbers only is a choice, unless the `question` before it asks for a number. If the lists are not in the last answer
    (`is_last` is false), a number counts only with a word such as "number" or "option".
    """
    only = bool(_ONLY_NUMBERS.match(text)) and not _HOW_MANY.search(question)
    found: dict[int, tuple[Entry, Listing]] = {}
    for number, is_named in _references(text, is_choice=only or bool(_CHOOSES.search(text))):
        if not is_last and not is_named:
            continue
        places = [(entry, one) for one in listings for entry in one.entries if entry.number == number]
        if not number and len(listings) == 1:
            places = [(listings[0].entries[-1], listings[0])]
        if len(places) == 1:
            found.setdefault(places[0][0].number, places[0])
    return list(found.values())


_HOW_MANY: Final = re.compile(
    r"\b(?:how (?:many|much|long|old|often)|wie ?viele?|wie (?:lange|oft|alt)|cuánt\w*|combien|quant\w*|hoeveel)\b"
    r"|何[^？]{0,200}？|いくつ|几|多少",
    re.IGNORECASE,
)


def described(sentence: str, listings: Sequence[Listing]) -> list[tuple[Entry, Listing]]:
    """Return the item that a sentence describes, or all items of the last list if none or several items match."""
    hit = DESCRIBES.search(sentence)
    if hit is None or not listings:
        return []
    wanted = _stems(hit["one"] or hit["which"])
    scored = [
        (len(wanted & _stems(" ".join((entry.text, *entry.details)))), entry, one)
        for one in listings
        for entry in one.entries
    ]
    highest = max(score for score, _, _ in scored)
    best = [(entry, one) for score, entry, one in scored if score == highest]
    if highest and len(best) == 1:
        return best
    return [(entry, listings[-1]) for entry in listings[-1].entries]


def _stems(text: str) -> set[str]:
    return {word.lower()[:_STEM] for word in words_of(text) if word.lower() not in STOP}


# ---------------------------------------------------------------- proposals

_PROPOSES: Final = re.compile(
    r"\b(?:i['’]d|i would|we could|we should|you could|you can|you should|i (?:suggest|recommend|propose|advise)"
    r"|let['’]s|shall (?:i|we)"
    r"|best|easiest|simplest|better to|why not|how about|ich würde|ich schlage|schlage vor|am besten|wir (?:könnten|sollten)"
    r"|sugiero|propongo|recomiendo|te aconsejo|lo mejor|podrías|podemos|je (?:propose|suggère|recommande|conseille|ferais)"
    r"|le mieux|tu pourrais|vous pourriez|on pourrait|suggerisco|consiglio|conviene|potresti|potremmo|meglio"
    r"|sugiro|recomendo|o melhor|poderia|ik (?:stel|zou|raad)|het beste|laten we)\b|ましょう|おすすめ|建议|不如",
    re.IGNORECASE,
)
_VACUOUS: Final = word_set("""
    shall go on ok okay alright sound sounds good right work works think like want proceed continue start carry ahead fine
    agree make sense prefer weiter soll machen gut recht einverstanden passt sigo seguimos adelante bien parece convient
    vas va bene procedo così continuo pode ser goed akkoord zal doorgaan anything else one ones which sonst noch etwas
    algo más autre chose altro mais alguma coisa verder nog iets
""")


def proposal_in(sentences: Sequence[str]) -> str:
    """Return the proposal in an answer: the question at its end, or else the last sentence that proposes something.

    Return an empty string if there is no proposal.
    """
    if sentences and asks_something(sentences[-1]):
        return sentences[-1]
    return next((one for one in reversed(sentences) if _PROPOSES.search(one) and not one.endswith(QUESTION_MARKS)), "")


def asks_something(sentence: str) -> bool:
    """Return whether a sentence is a question with a specific word. "Shall I go on?" has none."""
    return sentence.endswith(QUESTION_MARKS) and (
        " " not in sentence
        or any(word.lower() not in STOP and word.lower() not in _VACUOUS for word in words_of(sentence))
    )
