package codex

import "claudeops/internal/agent"

// KnownVersion is the version that is installed: the one that the tests run, and the oldest that may run.
const KnownVersion = OldestVersion

// InstallCommand installs the version that is known to work.
const InstallCommand = "claudeops agent install codex"

// Back says how to get the version that is known to be held.
const Back = "install " + KnownVersion + " with " + InstallCommand + " or " + npmCommand

const (
	npmCommand = "npm install -g @openai/codex@" + KnownVersion
	whereItIs  = "or set CLAUDEOPS_CODEX_BIN to its path in the environment of claudeops"
	hint       = "install it with " + InstallCommand + " or " + npmCommand + ", " + whereItIs
)

// InstallHint says how to get Codex.
const InstallHint = "Install it with '" + InstallCommand + "' or '" + npmCommand + "', " + whereItIs

// KnownPackage is the package for this machine.
func KnownPackage() (agent.Package, error) {
	known := map[string]agent.Package{
		"linux-x64": {
			Sum:    "sha512-CxDm3+D1cpbGJeHrdzINoG+3wn9BVncP4qpZaaNYkxe8iPtRJOYyCJnnPoVjWRIBvI9vPKbRoifsMSA5xDaUpw==",
			Folder: "package/vendor/x86_64-unknown-linux-musl",
		},
		"linux-arm64": {
			Sum:    "sha512-w0ScAsBr9aZKtIFrh6HN6KU2yjKKeSCzYfbb7DB0Ccj4BYPzeZtUeQprbycLCwuX3AFQdbdjapmLho2iot74jQ==",
			Folder: "package/vendor/aarch64-unknown-linux-musl",
		},
	}
	p, ok := known[agent.Platform()]
	if !ok {
		return p, agent.NoPackage("Codex", whereItIs)
	}
	p.Name, p.Version, p.Program, p.Path = "@openai/codex@"+KnownVersion+"-"+agent.Platform(), KnownVersion, name, "bin/codex"
	return p, nil
}
