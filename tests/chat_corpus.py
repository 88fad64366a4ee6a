# ruff: noqa: E501 (templates are kept as models have them)
"""Chat templates of the kinds that published models have, and conversations of all shapes.

Each template is written here, in the spirit of a family of models: how it opens and ends turns,
where a system prompt goes, what it strips, hides, refuses or adds.
"""

from __future__ import annotations

SPECIAL = (
    *("<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|system|>", "<|user|>"),
    *("<|assistant|>", "<|end|>", "<start_of_turn>", "<end_of_turn>", "<bos>", "[INST]", "[/INST]"),
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<|start_of_role|>", "<|end_of_role|>"),
    *("<|end_of_text|>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|User|>"),
    *("<|Assistant|>", "<|User|>", "<|im_sep|>"),
)

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA_2 = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}
{%- set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}
{%- set system_message = false %}{% endif %}{% for message in loop_messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Roles go user, assistant, user, assistant here.') }}{% endif %}
{%- if loop.index0 == 0 and system_message != false %}
{%- set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}
{%- else %}{% set content = message['content'] %}{% endif %}
{%- if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}
{%- endif %}{% endfor %}"""
LLAMA_3 = """{% set loop_messages = messages %}{% for message in loop_messages %}
{%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'
 + message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}
{%- set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
LLAMA_3_1 = """{{- bos_token }}
{%- if not date_string is defined %}{% if strftime_now is defined %}
{%- set date_string = strftime_now("%d %b %Y") %}{% else %}
{%- set date_string = "26 Jul 2024" %}{% endif %}{% endif %}
{%- if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content']|trim %}
{%- set messages = messages[1:] %}{% else %}{% set system_message = "" %}{% endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{{- "Knowledge until: December 2023\n" }}{{- "Today: " + date_string + "\n\n" }}
{{- system_message }}{{- "<|eot_id|>" }}
{%- for message in messages %}
{%- if message.role == 'ipython' or message.role == 'tool' %}
{{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
{%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
{{- message.content | tojson }}{% else %}{{ message.content }}{% endif %}{{ "<|eot_id|>" }}
{%- elif 'tool_calls' in message %}
{%- if message.tool_calls|length != 1 %}{{- raise_exception("One call at a time, please.") }}{% endif %}
{%- set call = message.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
{{- '{"name": "' + call.name + '", ' }}{{- '"parameters": ' }}{{- call.arguments | tojson }}
{{- "}" }}{{- "<|eot_id|>" }}
{%- else %}{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'
 + message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
PHI_3 = (
    "{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|system|>' + '\n' + "
    "message['content'] + '<|end|>' + '\n'}}{% elif (message['role'] == 'user') %}{{'<|user|>' + "
    "'\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}"
    "{% elif message['role'] == 'assistant' %}{{message['content'] + '<|end|>' + '\n'}}"
    "{% endif %}{% endfor %}"
)
PHI_3_5 = (
    "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}"
    "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
    "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
    "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
PHI_4 = (
    "{% for message in messages %}{% if (message['role'] == 'system') %}"
    "{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}"
    "{% elif (message['role'] == 'user') %}"
    "{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}"
    "{% elif (message['role'] == 'assistant') %}"
    "{{'<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>'}}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"
)
GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
{{- raise_exception('There is no system role here.') }}{% endif %}{% for message in messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('User and assistant take turns here.') }}{% endif %}
{%- if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}
{%- set role = message['role'] %}{% endif %}
{{- '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"""
GEMMA_3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("User and assistant take turns here.") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}{%- set role = "model" -%}
    {%- else -%}{%- set role = message['role'] -%}{%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("The content is of no kind known here.") }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"""
MISTRAL_1 = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate user/assistant here.') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}"
    "{% else %}{{ raise_exception('Only user and assistant are known.') }}{% endif %}{% endfor %}"
)
MISTRAL_3 = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the system message, roles alternate here.") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST]" + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS][" }}
        {%- for tool_call in message.tool_calls %}
            {{- tool_call.function | tojson }}{% if not loop.last %}{{ ", " }}{% endif %}
        {%- endfor %}{{- "]" + eos_token }}
    {%- elif message["role"] == "assistant" %}
        {{- message["content"] + eos_token }}
    {%- elif message["role"] == "tool" %}
        {{- '[TOOL_RESULTS]{"content": ' + message.content|string + "}[/TOOL_RESULTS]" }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles, and one system message.") }}
    {%- endif %}
{%- endfor %}"""
MISTRAL_7 = """{{- bos_token }}{%- for message in messages %}
{%- if message['role'] == 'user' %}{{- '[INST]' + message['content'] + '[/INST]' }}
{%- elif message['role'] == 'system' %}
{{- '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}
{%- elif message['role'] == 'assistant' %}{{- message['content'] + eos_token }}
{%- else %}{{- raise_exception('Only user, system and assistant roles are known here.') }}
{%- endif %}{%- endfor %}"""
QWEN_2_5 = """{%- if tools %}{{- '<|im_start|>system\n' }}
{%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}{% else %}
{{- 'You help.' }}{% endif %}{{- "\n\n# Tools\n<tools>" }}
{%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{% endfor %}{{- "\n</tools><|im_end|>\n" }}
{%- else %}{% if messages[0]['role'] == 'system' %}
{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}{% else %}
{{- '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{% endif %}
{%- for message in messages %}
{%- if (message.role == "user") or (message.role == "system" and not loop.first)
 or (message.role == "assistant" and not message.tool_calls) %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
{%- elif message.role == "assistant" %}{{- '<|im_start|>' + message.role }}
{%- if message.content %}{{- '\n' + message.content }}{% endif %}
{%- for tool_call in message.tool_calls %}
{%- if tool_call.function is defined %}{% set tool_call = tool_call.function %}{% endif %}
{{- '\n<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
{{- tool_call.arguments | tojson }}{{- '}\n</tool_call>' }}{% endfor %}{{- '<|im_end|>\n' }}
{%- elif message.role == "tool" %}
{%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
{{- '<|im_start|>user' }}{% endif %}{{- '\n<tool_response>\n' }}{{- message.content }}
{{- '\n</tool_response>' }}{% if loop.last or (messages[loop.index0 + 1].role != "tool") %}
{{- '<|im_end|>\n' }}{% endif %}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}"""
QWEN_3 = """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{% set content = message.content %}
    {%- else %}{% set content = '' %}{% endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}{% for call in message.tool_calls %}
            {{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {%- if call.function.arguments is string %}{{ call.function.arguments }}
            {%- else %}{{ call.function.arguments | tojson }}{% endif %}{{- '}\n</tool_call>' }}
        {%- endfor %}{% endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user\n<tool_response>\n' + content + '\n</tool_response><|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""
QWQ = """{%- if messages[0]['role'] == 'system' %}
{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}{% endif %}
{%- for message in messages %}
{%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
{%- elif message.role == "assistant" and not message.tool_calls %}
{%- set content = message.content.split('</think>')[-1].lstrip('\n') %}
{{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{% endif %}"""
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nA helpful assistant, trained somewhere.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SMOLLM3 = """{%- if enable_thinking is not defined %}{% set enable_thinking = true %}{% endif %}
{%- set mode = "/think" if enable_thinking else "/no_think" %}
{%- if messages[0].role == "system" %}{% set system_message = messages[0].content %}
{%- if "/no_think" in system_message %}{% set mode = "/no_think" %}
{%- elif "/think" in system_message %}{% set mode = "/think" %}{% endif %}
{%- set custom = system_message.replace("/no_think", "").replace("/think", "").rstrip() %}{% endif %}
{{- "<|im_start|>system\n" }}{{- "Date: " ~ strftime_now("%d %B %Y") ~ "\n" }}
{{- "Mode: " + mode + "\n\n" }}{% if custom %}{{ custom + "\n\n" }}{% endif %}{{- "<|im_end|>\n" }}
{%- for message in messages %}{% set content = message.content if message.content is string else "" %}
{%- if message.role == "user" %}
{{ "<|im_start|>" + message.role + "\n" + content + "<|im_end|>\n" }}
{%- elif message.role == "assistant" %}{% generation %}
{%- if mode == "/think" %}
{{ "<|im_start|>assistant\n" + content.lstrip("\n") + "<|im_end|>\n" }}{% else %}
{{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n" + content.lstrip("\n") + "<|im_end|>\n" }}
{%- endif %}{% endgeneration %}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\n" }}
{%- if mode == "/no_think" %}{{ "<think>\n\n</think>\n" }}{% endif %}{% endif %}"""
LFM2 = """{{- bos_token -}}
{%- set system_prompt = "" -%}
{%- set ns = namespace(system_prompt="") -%}
{%- if messages[0]["role"] == "system" -%}
	{%- set ns.system_prompt = messages[0]["content"] -%}
	{%- set messages = messages[1:] -%}
{%- endif -%}
{%- if tools -%}
	{%- set ns.system_prompt = ns.system_prompt + ("\n" if ns.system_prompt else "") + "Tools: [" -%}
	{%- for tool in tools -%}
		{%- if tool is not string -%}{%- set tool = tool | tojson -%}{%- endif -%}
		{%- set ns.system_prompt = ns.system_prompt + tool -%}
		{%- if not loop.last -%}{%- set ns.system_prompt = ns.system_prompt + ", " -%}{%- endif -%}
	{%- endfor -%}
	{%- set ns.system_prompt = ns.system_prompt + "]" -%}
{%- endif -%}
{%- if ns.system_prompt -%}
	{{- "<|im_start|>system\n" + ns.system_prompt + "<|im_end|>\n" -}}
{%- endif -%}
{%- for message in messages -%}
	{{- "<|im_start|>" + message["role"] + "\n" -}}
	{%- set content = message["content"] -%}
	{%- if content is not string -%}{%- set content = content | tojson -%}{%- endif -%}
	{{- content + "<|im_end|>\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<|im_start|>assistant\n" -}}{%- endif -%}"""
GRANITE = """{%- if messages[0]['role'] == 'system' %}
{%- set system_message = messages[0]['content'] %}{% set loop_messages = messages[1:] %}{% else %}
{%- set system_message = "Knowledge until: April 2024.\nToday: " + strftime_now('%B %d, %Y')
 + ".\nYou are a model." %}{% set loop_messages = messages %}{% endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\n' }}
{%- for message in loop_messages %}
{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\n' }}
{%- if loop.last and add_generation_prompt %}
{{- '<|start_of_role|>assistant' }}{% if controls %}{{- ' ' + controls | tojson() }}{% endif %}
{{- '<|end_of_role|>' }}{% endif %}{% endfor %}"""
DEEPSEEK = (
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}"
    "{% endif %}{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ 'User: ' + message['content'] + '\n\n' }}{% elif message['role'] == 'assistant' %}"
    "{{ 'Assistant: ' + message['content'] + eos_token }}{% elif message['role'] == 'system' %}"
    "{{ message['content'] + '\n\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
DEEPSEEK_R1 = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
{%- set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}
{%- for message in messages %}{% if message['role'] == 'system' %}
{%- set ns.system_prompt = message['content'] %}{% endif %}{% endfor %}
{{- bos_token }}{{- ns.system_prompt }}{% for message in messages %}
{%- if message['role'] == 'user' %}{% set ns.is_tool = false %}
{{- '<|User|>' + message['content'] }}{% endif %}
{%- if message['role'] == 'assistant' and message['content'] is none %}
{%- for tool in message['tool_calls'] %}
{{- '<|Assistant|>call:' + tool['function']['name'] + '\n' + tool['function']['arguments'] | tojson }}
{%- endfor %}{{- eos_token }}{% endif %}
{%- if message['role'] == 'assistant' and message['content'] is not none %}
{%- set content = message['content'] %}{% if '</think>' in content %}
{%- set content = content.split('</think>')[-1] %}{% endif %}
{{- '<|Assistant|>' + content + eos_token }}{% endif %}
{%- if message['role'] == 'tool' %}{{- 'result:' + message['content'] }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|Assistant|><think>\n' }}{% endif %}"""
COMMAND_R = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
{%- set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}
{%- elif false == true %}{% set loop_messages = messages %}
{%- set system_message = 'You are Command.' %}{% else %}{% set loop_messages = messages %}
{%- set system_message = false %}{% endif %}{% if system_message != false %}
{{- '<|START_OF_TURN_TOKEN|>SYSTEM' + system_message + '<|END_OF_TURN_TOKEN|>' }}{% endif %}
{%- for message in loop_messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate here.') }}{% endif %}
{%- set content = message['content'] %}{% if message['role'] == 'user' %}
{{- '<|START_OF_TURN_TOKEN|>USER' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}
{%- elif message['role'] == 'assistant' %}
{{- '<|START_OF_TURN_TOKEN|>CHATBOT' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|>CHATBOT' }}{% endif %}"""
FALCON = (
    "{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}"
    "{% if message['role'] == 'system' %}{{ 'System: ' + message['content'] }}"
    "{% elif message['role'] == 'user' %}{{ 'User: ' + message['content'] }}"
    "{% elif message['role'] == 'assistant' %}{{ 'Falcon: ' + message['content'] }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '\n' + 'Falcon:' }}{% endif %}"
)
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
VICUNA = (
    "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] ~ ' ' }}"
    "{% set rest = messages[1:] %}{% else %}{{ 'A chat between a user and an assistant. ' }}"
    "{% set rest = messages %}{% endif %}{% for message in rest %}"
    "{% if message['role'] == 'user' %}{{ 'USER: ' ~ message['content'] ~ ' ' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ 'ASSISTANT: ' ~ message['content'] ~ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
INTERN_LM = (
    "{{ bos_token }}{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ALPACA = """{%- for message in messages -%}
{%- if message.role == 'system' -%}{{ message.content + '\n\n' }}
{%- elif message.role == 'user' -%}{{ '### Instruction:\n' + message.content | trim + '\n\n' }}
{%- else -%}{{ '### Response:\n' + message.content | trim + '\n\n' }}{%- endif -%}
{%- endfor -%}{%- if add_generation_prompt -%}{{ '### Response:\n' }}{%- endif -%}"""
OLMO = (
    "{{ eos_token }}{% for message in messages %}{% if message['role'] == 'system' %}"
    "{{ '<|system|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'user' %}"
    "{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}"
    "{% if not loop.last %}{{ '<|assistant|>\n'  + message['content'] + eos_token + '\n' }}"
    "{% else %}{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}{% endif %}"
    "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}"
)
# Names of speakers; parts of contents; loops that are left; macros.
NAMED = """{%- macro turn(message) -%}
<|im_start|>{{ message.role }}{% if message.name %} name={{ message.name }}{% endif %}{{ '\n' }}
{%- if message.content is string %}{{ message.content }}{% else %}
{%- for part in message.content or [] %}{% if part.type != 'text' %}{% continue %}{% endif %}
{{- part.text }}{% endfor %}{% endif %}<|im_end|>{{ '\n' }}
{%- endmacro -%}
{%- for message in messages %}{{ turn(message) }}{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif -%}"""
# Channels of thought, an effort of reasoning, developers.
HARMONY = """<|im_start|>system{{ '\n' }}Today: {{ strftime_now("%Y-%m-%d") }}
Reasoning: {{ reasoning_effort | default("medium") }}<|im_end|>
{% for message in messages %}{% if message.role in ["developer", "system"] %}
<|im_start|>developer{{ '\n' }}# Instructions

{{ message.content }}<|im_end|>
{% elif message.role == 'assistant' %}{% if message.thinking and loop.last %}
<|im_start|>assistant analysis{{ '\n' }}{{ message.thinking }}<|im_end|>
{% endif %}<|im_start|>assistant final{{ '\n' }}{{ message.content }}<|im_end|>
{% else %}<|im_start|>{{ message.role }}{{ '\n' }}{{ message.content }}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant{% endif %}"""

TEMPLATES = {
    "chatml": CHATML,
    "llama 2": LLAMA_2,
    "llama 3": LLAMA_3,
    "llama 3.1": LLAMA_3_1,
    "phi 3": PHI_3,
    "phi 3.5": PHI_3_5,
    "phi 4": PHI_4,
    "gemma": GEMMA,
    "gemma 3": GEMMA_3,
    "mistral 1": MISTRAL_1,
    "mistral 3": MISTRAL_3,
    "mistral 7": MISTRAL_7,
    "qwen 2.5": QWEN_2_5,
    "qwen 3": QWEN_3,
    "qwq": QWQ,
    "smollm 2": SMOLLM2,
    "smollm 3": SMOLLM3,
    "lfm 2": LFM2,
    "granite": GRANITE,
    "deepseek": DEEPSEEK,
    "deepseek r1": DEEPSEEK_R1,
    "command r": COMMAND_R,
    "falcon": FALCON,
    "zephyr": ZEPHYR,
    "vicuna": VICUNA,
    "internlm": INTERN_LM,
    "alpaca": ALPACA,
    "olmo": OLMO,
    "named": NAMED,
    "harmony": HARMONY,
}


def system(text: str) -> dict[str, object]:
    return {"role": "system", "content": text}


def user(text: object, **more: object) -> dict[str, object]:
    return {"role": "user", "content": text, **more}


def assistant(text: object, **more: object) -> dict[str, object]:
    return {"role": "assistant", "content": text, **more}


def _call(arguments: object) -> dict[str, object]:
    return {
        "id": "abcdefghi",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }


CONVERSATIONS: dict[str, list[dict[str, object]]] = {
    "one message": [user("Hello!")],
    "a system prompt": [system("Be brief."), user("Hello!")],
    "an empty system prompt": [system(""), user("Hello!")],
    "three turns": [user("a"), assistant("b"), user("c"), assistant("d"), user("e")],
    "turns after a system prompt": [system("s"), user("a"), assistant("b"), user("c")],
    "two users": [user("Hello!"), user("Are you there?")],
    "two answers": [user("a"), assistant("b"), assistant("c"), user("d")],
    "a system prompt later": [user("a"), assistant("b"), system("Be brief."), user("c")],
    "two system prompts": [system("a"), system("b"), user("c")],
    "a system prompt alone": [system("Write a poem.")],
    "an assistant first": [assistant("Hello, I help."), user("a")],
    "an assistant last": [user("a"), assistant("b")],
    "an empty message": [user("")],
    "empty messages": [user("a"), assistant(""), user("")],
    "spaces": [system(" s\n"), user("\n a  "), assistant(" \n b\n"), user("\tc\n\n")],
    "line breaks": [user("\n\na\n\nb\n"), assistant("\n\nc\n"), user("d\n")],
    "names": [user("a", name="bob"), assistant("b", name="writer"), user("c", name="al")],
    "thinking": [user("a"), assistant("<think>\nwhy\n</think>\n\nso"), user("b")],
    "half a thought": [user("a"), assistant("why</think>so"), user("<think>")],
    "reasoning": [user("a"), assistant("b", reasoning_content="because"), user("c")],
    "reasoning last": [user("a"), assistant("b", reasoning_content="because")],
    "another name of reasoning": [user("a"), assistant("b", reasoning="why"), user("c")],
    "a developer": [{"role": "developer", "content": "Be brief."}, user("a")],
    "markup": [user("{{ messages }} {% if %} <b> & ' \" \\n"), assistant("`x`"), user("\u2028ü😀")],
    "a call": [user("a"), assistant("", tool_calls=[_call({"x": ["ü", 1]})]), user("b")],
    "a call and its result": [
        user("a"),
        assistant("", tool_calls=[_call({})]),
        {"role": "tool", "tool_call_id": "abcdefghi", "name": "f", "content": "12"},
    ],
    "a long conversation": [user("a") if n % 2 == 0 else assistant("b") for n in range(41)],
}
# Contents that are lists or nothing at all.
PARTS = [user([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}])]
NO_CONTENT = {
    "null": [user("a"), assistant(None), user("b")],
    "absent": [user("a"), {"role": "assistant"}, user("b")],
    "null with a call": [user("a"), assistant(None, tool_calls=[_call({"x": 1})]), user("b")],
}
