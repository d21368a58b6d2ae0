package codex

import "claudeops/internal/agent"

// KnownVersion is the version that is installed: the one that the tests run.
const KnownVersion = "0.169.0"

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
			Sum:    "sha512-o05NyAOCDygSPRo1yinzxvkRSdmsZyBD9E7mbpmjRanSfM8lypqWtQgEo4XfNkwhuCR2aFu8mlGOsQGFXVbVww==",
			Folder: "package/vendor/x86_64-unknown-linux-musl",
		},
		"linux-arm64": {
			Sum:    "sha512-NZ/DaQUpcQmxmqee7Z9uC1rzw3GhSbooawcaTe1LN5Yk+WlinUKGdTXJgClRT/9ogQEEM9TWxYzvxPfj5G/xFg==",
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
