package agent

// OldestVersion is the oldest Claude Code that may run above Tier 1.
const OldestVersion = oldestVersion

// InstallHint says how to get the agent CLI.
const InstallHint = "Install it with 'npm install -g @anthropic-ai/claude-code' or set CLAUDEOPS_CLAUDE_BIN"

// TooOld reports whether a known version may not run above Tier 1.
func TooOld(version string) bool { return olderVersion(version, oldestVersion) }

// CgroupAvailable reports whether sessions get a control group of their own here.
func CgroupAvailable() bool {
	g := makeCgroup("doctor")
	if g == nil {
		return false
	}
	g.remove()
	return true
}
