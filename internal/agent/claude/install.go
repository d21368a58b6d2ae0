package claude

import (
	"path/filepath"

	"claudeops/internal/agent"
)

// KnownVersion is the version that is installed: the one that the tests run.
const KnownVersion = "2.1.327"

// KnownPackage is the package for this machine.
func KnownPackage() (agent.Package, error) {
	platform := agent.Platform()
	if found, _ := filepath.Glob("/lib/ld-musl-*.so.1"); len(found) > 0 {
		platform += "-musl"
	}
	sum := map[string]string{
		"linux-x64":        "sha512-uJ24I+t47cpQjeo31ZrHepsFQ8QUsLjCxmDxLshMjYHEtoxhQdgKc4iuViQDaKpFqn3puR85gwHlLj4e7s+1iQ==",
		"linux-arm64":      "sha512-vI4ygSwj6e8f0hWzM2sRxe6r2OvQU35HgoIZtx0rkvu574lxCFUUKUpn9hgWd6FwwMFz2gQyRhwQD7lPmTgW9A==",
		"linux-x64-musl":   "sha512-GhxvaKxZSNSFOyGP3Dwm+QoHz2h5TMmONN+GXb4xH4tbWT5AnvoCT6P62r342fTdGoonVEigEH1bnkcALNzLOw==",
		"linux-arm64-musl": "sha512-zVRKZ1IdMOvm7M4Y0FIuJY1g3BWnpGVUOv8Fu8kGHYk0WbkES1BkuJG0O/6Jzd+LhkadEmBypz0odbGqvoqD+w==",
	}[platform]
	if sum == "" {
		return agent.Package{}, agent.NoPackage("Claude Code", whereItIs)
	}
	return agent.Package{
		Name: "@anthropic-ai/claude-code-" + platform + "@" + KnownVersion, Sum: sum, Version: KnownVersion,
		Program: "claude", Folder: "package", Path: "claude",
	}, nil
}
