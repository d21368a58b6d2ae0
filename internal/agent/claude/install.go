package claude

import (
	"path/filepath"

	"claudeops/internal/agent"
)

// KnownVersion is the version that is installed: the one that the tests run.
const KnownVersion = "2.1.328"

// KnownPackage is the package for this machine.
func KnownPackage() (agent.Package, error) {
	platform := agent.Platform()
	if found, _ := filepath.Glob("/lib/ld-musl-*.so.1"); len(found) > 0 {
		platform += "-musl"
	}
	sum := map[string]string{
		"linux-x64":        "sha512-KuzL+dBHgDCFTHJxwW+xuBJdVKfBsesGx2BBcTOG9sYDGoAD7b1hUV8rsTS4xjoJsB2SmeGraGjBiFuhrYuC9w==",
		"linux-arm64":      "sha512-zeWsClzx/rli8q6RsngKisu5BnuZ41J7Htp0qgsdZomaJCINiksf+mewQ/gyaylKajBZCoE9Z8R+OkLMjIkJig==",
		"linux-x64-musl":   "sha512-JiYOp70eNGo+NQGwfPOyzupUf4rVjXd2cXpyF1elbp97mR22tagM7qlCQ/8jGrKSce82/ZKkyXQo39IsQjnNLQ==",
		"linux-arm64-musl": "sha512-7WgJJKqF3+ZHug9afhVfiEouUME1Y4dApnwqXDK0N06ipIyTPmE7Mqi53FfmUZI7In651SI4ZN7A14xGoe3M2w==",
	}[platform]
	if sum == "" {
		return agent.Package{}, agent.NoPackage("Claude Code", whereItIs)
	}
	return agent.Package{
		Name: "@anthropic-ai/claude-code-" + platform + "@" + KnownVersion, Sum: sum, Version: KnownVersion,
		Program: "claude", Folder: "package", Path: "claude",
	}, nil
}
