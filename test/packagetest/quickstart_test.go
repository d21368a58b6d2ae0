//go:build linux

package packagetest

import (
	"path/filepath"
	"regexp"
	"testing"

	"claudeops/test/readme"
)

// The commands of the README are run as they are written. Root needs no sudo, so there it is a program that starts another one.
func TestQuickStart_Package(t *testing.T) {
	made := theRelease(t)
	m := newMachine(t, bookworm)
	m.put(made.deb(), "/root/"+filepath.Base(made.deb()))
	m.write("/usr/bin/sudo", "#!/bin/sh\nexec \"$@\"\n", 0o755)
	// A person says yes. The packages that it recommends cannot be reached.
	m.write("/etc/apt/apt.conf.d/90test", "APT::Get::Assume-Yes \"true\";\nAPT::Install-Recommends \"false\";\n", 0o644)
	out := m.run("bash", "-euo", "pipefail", "-c", "cd /root\n"+readme.QuickStart(t, checkout(t), "package"))
	if !regexp.MustCompile(`http://127\.0\.0\.1:8080/login\?code=\w+`).MatchString(out) {
		t.Errorf("it prints no link that signs in:\n%s", out)
	}
	if got := m.state(); got != "active" {
		t.Errorf("the service is %s", got)
	}
	m.run("claudeops", "healthcheck")
	m.run("sh", "-c", `grep -q '^ANTHROPIC_API_KEY=sk-ant-your-key$' /etc/claudeops/secrets && test "$(stat -c '%U %a' /etc/claudeops/secrets)" = "root 600"`)
	contains(t, "configuration", m.run("sh", "-c", "claudeops config show | grep ^trust"), "suggest")
}
