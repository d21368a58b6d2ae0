package claude

import (
	"path/filepath"

	"claudeops/internal/agent"
)

// KnownVersion is the version that is installed: the one that the tests run.
const KnownVersion = "2.1.325"

// KnownPackage is the package for this machine.
func KnownPackage() (agent.Package, error) {
	platform := agent.Platform()
	if found, _ := filepath.Glob("/lib/ld-musl-*.so.1"); len(found) > 0 {
		platform += "-musl"
	}
	sum := map[string]string{
		"linux-x64":        "sha512-BqZzMvP/zgLLL34S+7OzbG+cyoFp7gwWHU5koVwsyMlTAz+0zZAmbY+UkzvtN2RXxp6AcMenbYIjQJxoXfUY3w==",
		"linux-arm64":      "sha512-NCvQcOxr685Y4mkYUjQT8l/Ouzw0k2xWloWeyzfsUtWiOedHosPkaW6XCSpzAl1dMuvDNBF97qpWgVDrSdK2Vw==",
		"linux-x64-musl":   "sha512-oGdN1c/gsReTlQ5lAktxX8AV7bt3USQsGrTDlFjf+bdIk7Kc8GCTZLGS7aBh59vGsgn4Oz255v/SSZ7+6wWz6g==",
		"linux-arm64-musl": "sha512-xZLgceKCX42bUXTqz3Cd1Tc7Li43ys8+gO1SA8ZKJ4q+a0ALv+N2LHQUC1Sr+AY3Qv16VQU/yAvU/iS24CuJdg==",
	}[platform]
	if sum == "" {
		return agent.Package{}, agent.NoPackage("Claude Code", whereItIs)
	}
	return agent.Package{
		Name: "@anthropic-ai/claude-code-" + platform + "@" + KnownVersion, Sum: sum, Version: KnownVersion,
		Program: "claude", Folder: "package", Path: "claude",
	}, nil
}
