# One interface target that every other target links: language level, warnings,
# sanitizers. Nothing edits CMAKE_C_FLAGS.
add_library(sxt_flags INTERFACE)
target_compile_features(sxt_flags INTERFACE c_std_11)
set_target_properties(sxt_flags PROPERTIES INTERFACE_POSITION_INDEPENDENT_CODE ON)
target_compile_definitions(sxt_flags INTERFACE _GNU_SOURCE
	SXT_VERSION="${PROJECT_VERSION}")
target_include_directories(sxt_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_options(sxt_flags INTERFACE
	-std=c11 -g
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
	-Wformat=2 -Wundef -Wconversion -Wno-sign-conversion
	-fno-strict-aliasing -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
	$<$<BOOL:${SEXTANT_WERROR}>:-Werror>
	$<$<BOOL:${SEXTANT_COVERAGE}>:--coverage>)
target_link_options(sxt_flags INTERFACE $<$<BOOL:${SEXTANT_COVERAGE}>:--coverage>)
# What is installed is optimised across files where a target asks for it with SXT_LTO: calls between
# the rooms are much of what a message costs. Objects stay whole for everybody else who links them.
if(CMAKE_C_COMPILER_ID STREQUAL GNU AND NOT SEXTANT_SANITIZE AND NOT SEXTANT_COVERAGE)
	set(sxt_for_use $<CONFIG:Release,RelWithDebInfo>)
	set(sxt_wants_lto $<BOOL:$<TARGET_PROPERTY:SXT_LTO>>)
	target_compile_options(sxt_flags INTERFACE
		$<${sxt_for_use}:-flto=auto> $<${sxt_for_use}:-ffat-lto-objects>)
	target_link_options(sxt_flags INTERFACE
		$<${sxt_for_use}:$<IF:${sxt_wants_lto},-flto=auto,-fno-lto>>)
endif()
if(SEXTANT_SANITIZE)
	target_compile_options(sxt_flags INTERFACE
		-fsanitize=${SEXTANT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
	target_link_options(sxt_flags INTERFACE -fsanitize=${SEXTANT_SANITIZE})
endif()

# sxt_room(name SOURCES...): the object library of one room (top-level folder).
function(sxt_room name)
	add_library(${name} OBJECT ${ARGN})
	target_link_libraries(${name} PUBLIC sxt_flags)
endfunction()
