"""Chat templates of the kinds that models come with, in Jinja."""

CHATML = (
    "{% for message in messages %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + message['content'] + '<|im_end|>\\n' -}}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# A default system prompt.
DEFAULT_SYSTEM = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    + CHATML
)
# Removes the white space around messages.
TRIMS = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '[' + message.role + ']' + message.content | trim + eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
# No system prompt; roles must alternate; an end token after each answer.
TURNS = (
    "{% for message in messages %}"
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if message.role == 'user' %}{{ '[INST] ' + message.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + message.content | trim + eos_token }}{% endif %}"
    "{% endfor %}"
)
# The system prompt becomes part of the first message.
FOLDED_SYSTEM = (
    "{% if messages[0].role == 'system' %}{% set said = messages[1:] %}"
    "{% set system = '<<SYS>>' + messages[0].content + '<</SYS>>' %}"
    "{% else %}{% set said = messages %}{% set system = '' %}{% endif %}"
    "{% for message in said %}{% if message.role == 'user' %}"
    "{{ '[' + (system if loop.first else '') + message.content + ']' }}"
    "{% else %}{{ message.content + eos_token }}{% endif %}{% endfor %}"
)
# As before, and removes the white space around system prompt and first message together.
TRIMS_TOGETHER = (
    "{% if messages[0].role == 'system' %}{% set said = messages[1:] %}"
    "{% set system = messages[0].content + '\n' %}"
    "{% else %}{% set said = messages %}{% set system = '' %}{% endif %}"
    "{% for message in said %}{% if message.role == 'user' %}"
    "{{ '[' + ((system if loop.first else '') + message.content).strip() + ']' }}"
    "{% else %}{{ message.content.strip() + eos_token }}{% endif %}{% endfor %}"
)
# Removes the thinking from earlier answers.
THINKS = (
    "{% for message in messages %}{% set text = message.content %}"
    "{% if message.role == 'assistant' and '</think>' in text %}"
    "{% set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\\n' + text + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# Removes it too, and begins the thinking in the prompt.
BEGINS_THINKING = (
    "{% for message in messages %}{% if message.role == 'user' %}"
    "{{ '<|User|>' + message.content }}{% elif message.role == 'assistant' %}"
    "{{ '<|Assistant|>' + message.content.split('</think>')[-1] + eos_token }}"
    "{% else %}{{ message.content }}{% endif %}{% endfor %}<|Assistant|><think>\n"
)
# Knows tools: describes them in the system prompt, and marks calls by a word.
MARKED_CALLS = (
    "{% if tools %}<|im_start|>system\nTools:\n"
    "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content }}"
    "{% for call in message.tool_calls %}"
    "{{ '\\n' if message.content or not loop.first }}"
    '{{ \'<call>\\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{ (call.function.arguments | tojson) + '}\\n</call>' }}"
    "{% endfor %}{{ '</s>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Knows tools, too: an answer is either a text or one call, which is JSON alone.
JSON_CALLS = (
    "{% for tool in tools or [] %}{{ tool | tojson(indent=2) }}\n{% endfor %}"
    "{% for message in messages %}{{ '[' + message.role + ']' }}"
    "{% if message.tool_calls %}{% if message.tool_calls | length > 1 %}"
    "{{ raise_exception('one call only') }}{% endif %}"
    "{% set call = message.tool_calls[0].function %}"
    "{{ '{\"name\": \"' + call.name + '\", \"parameters\": ' + (call.arguments | tojson) + '}' }}"
    "{% else %}{{ message.content }}{% endif %}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
# Marks a list of calls by a special token.
LISTED_CALLS = (
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for message in messages %}{{ '[' + message.role + ']' }}"
    "{% if message.tool_calls %}{{ '<unk>[' }}{% for call in message.tool_calls %}"
    "{{ ', ' if not loop.first }}"
    '{{ \'{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{ (call.function.arguments | tojson) + '}' }}{% endfor %}{{ ']' }}"
    "{% else %}{{ message.content }}{% endif %}{{ '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
# Writes each argument between marks of its own.
XML_CALLS = (
    "{{ tools | tojson if tools }}{% for message in messages %}{{ message.content }}"
    "{% for call in message.tool_calls %}{% for key, value in call.function.arguments | items %}"
    "{{ '<' + call.function.name + '><' + key + '>' + value }}{% endfor %}{% endfor %}</s>"
    "{% endfor %}"
)
