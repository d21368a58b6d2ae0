//go:build linux

package packagetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	configPath = "/etc/claudeops/claudeops.yaml"
	statePath  = "/var/lib/claudeops"
)

// look is an agent that says what it can do.
const look = `#!/bin/sh
cat > /dev/null
echo "user $(id -un)"
echo "no capabilities $(grep -cE '^Cap(Prm|Eff|Amb):.0000000000000000$|^NoNewPrivs:.1$' /proc/self/status)"
echo "group $(sed -n 's/^0:://p' /proc/self/cgroup)"
echo "processes $(ls /proc | grep -c '^[0-9]')"
touch /etc/written 2>/dev/null && echo "wrote /etc"
grep -q a-token-of-the-test /etc/claudeops/secrets 2>/dev/null && echo "read secrets"
grep -aq SQLite /var/lib/claudeops/claudeops.db 2>/dev/null && echo "read the database"
kill -0 1 2>/dev/null && echo "may signal"
touch "$TMPDIR/mine" && echo "has its own folder"
cat <<END
{"schema_version": 1, "outcome": "healthy", "summary": "All is well.", "check_results": [{"service": "site", "check_type": "http", "status": "healthy", "error": ""}], "actions": [], "events": [], "memories": []}
END
`

const lookConfig = `dry_run: false
interval: 10h
listen: 127.0.0.1:8080
handlers:
  - {id: tier1, tier: 1, family: local, agent: command, model: none, command: [/usr/local/bin/look]}
`

// olderPackage is the package with another version number.
func olderPackage(t *testing.T, deb string) string {
	t.Helper()
	dir := t.TempDir()
	older := filepath.Join(t.TempDir(), "older.deb")
	script := `dpkg-deb -R "$1" "$2" && sed -i 's/^Version: .*/Version: 1.0.0-1/' "$2/DEBIAN/control" && dpkg-deb -Zzstd -z1 --root-owner-group -b "$2" "$3"`
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", deb, filepath.Join(dir, "x"), older).CombinedOutput(); err != nil {
		t.Fatalf("make older package: %v\n%s", err, out)
	}
	return older
}

// pid is that of the daemon.
func (m *machine) daemonPID() string {
	m.t.Helper()
	return strings.TrimSpace(m.run("systemctl", "show", "-P", "MainPID", "claudeops"))
}

// untilStatus waits for a status: a reload goes on when systemctl has sent the signal.
func (m *machine) untilStatus(want string) {
	m.t.Helper()
	var got string
	for range 100 {
		if got = m.run("systemctl", "status", "--no-pager", "claudeops"); strings.Contains(got, want) {
			return
		}
		m.run("sleep", "0.1")
	}
	m.t.Errorf("the status does not say %q:\n%s", want, got)
}

func (m *machine) state() string {
	out, _ := m.try("systemctl", "is-active", "claudeops") // it fails for every other state than active
	return strings.TrimSpace(out)
}

func TestAPackageIsInstalledStartedUpgradedRemovedAndPurged(t *testing.T) {
	for name, system := range map[string]string{"Debian 12": bookworm, "Debian 13": trixie} {
		t.Run(name, func(t *testing.T) { lifeOfAPackage(t, system) })
	}
}

func lifeOfAPackage(t *testing.T, system string) {
	made := theRelease(t)
	m := newMachine(t, system)
	m.put(olderPackage(t, made.deb()), "/root/older.deb")
	m.put(made.deb(), "/root/newer.deb")
	contains(t, "installation", m.run("dpkg", "-i", "/root/older.deb"), "systemctl enable --now claudeops")
	if got := m.state(); got != "inactive" {
		t.Errorf("after the installation the service is %s", got)
	}
	contains(t, "configuration", m.run("claudeops", "config", "show", "--origin"), configPath)
	contains(t, "configuration", m.run("sh", "-c", "claudeops config show | grep ^trust"), "suggest")
	m.run("systemctl", "enable", "--now", "claudeops")
	if got := m.state(); got != "active" {
		t.Fatalf("the service is %s", got)
	}
	m.run("claudeops", "healthcheck")
	contains(t, "status", m.run("systemctl", "status", "--no-pager", "claudeops"), "running; pages on http://127.0.0.1:8080")
	m.run("sh", "-c", `test "$(stat -c '%U %a' /var/lib/claudeops)" = "claudeops 711" && test "$(stat -c '%U %a' /etc/claudeops/secrets)" = "root 600"`)

	t.Run("every wall works under the unit", func(t *testing.T) { wallsUnderTheUnit(t, m) })
	t.Run("reload", func(t *testing.T) {
		before := m.daemonPID()
		m.write(configPath, lookConfig+"nonsense: 1\n", 0o644)
		m.run("systemctl", "reload", "claudeops")
		m.untilStatus("the new configuration is not used")
		m.write(configPath, lookConfig+"sandbox: required\n", 0o644)
		m.run("systemctl", "reload", "claudeops")
		m.untilStatus("running; pages on")
		contains(t, "session", m.session(), "user claudeops-agent", "no capabilities 4", "has its own folder")
		if after := m.daemonPID(); after != before {
			t.Errorf("a reload changed the process from %s to %s", before, after)
		}
	})

	t.Run("upgrade of a running service", func(t *testing.T) {
		before := m.daemonPID()
		cycles := strings.Count(m.run("claudeops", "cycles", "list", "-o", "jsonl"), "\n")
		m.run("dpkg", "-i", "/root/newer.deb")
		if after := m.daemonPID(); after == before || m.state() != "active" {
			t.Errorf("the service is %s with process %s", m.state(), after)
		}
		if got := strings.Count(m.run("claudeops", "cycles", "list", "-o", "jsonl"), "\n"); got != cycles {
			t.Errorf("%d cycles before, %d after the upgrade", cycles, got)
		}
		contains(t, "configuration after the upgrade", m.run("cat", configPath), "/usr/local/bin/look")
	})

	m.run("dpkg", "-r", "claudeops")
	if got := m.state(); got == "active" || m.has("/usr/bin/claudeops") || !m.has(statePath+"/claudeops.db") || !m.has(configPath) {
		t.Errorf("after the removal the service is %s, the program is there: %v", got, m.has("/usr/bin/claudeops"))
	}
	if out, err := m.try("sh", "-c", "grep -lx claudeops /proc/[0-9]*/comm"); err == nil {
		t.Errorf("processes are left: %s", out)
	}
	m.run("dpkg", "-i", "/root/newer.deb")
	m.put(filepath.Join(made.dist, "install.sh"), "/root/install.sh")
	contains(t, "removal", m.run("sh", "/root/install.sh", "--uninstall", "--purge"), "removed, with configuration and state")
	left := m.run("sh", "-c", `find / -xdev -name '*claudeops*' -not -path '/proc/*' -not -path '/sys/*' -not -path '/root/*'; getent passwd claudeops claudeops-agent; getent group claudeops claudeops-agent; true`)
	if left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

// session runs a session and returns what it printed.
func (m *machine) session() string {
	m.t.Helper()
	contains(m.t, "cycle", m.run("claudeops", "run", "look around"), "Result: healthy")
	out := m.run("sh", "-c", "claudeops sessions logs $(claudeops sessions list -o jsonl | sed -n '1s/^{\"id\":\\([0-9]*\\),.*/\\1/p')")
	for _, bad := range []string{"wrote /etc", "read secrets", "read the database", "may signal"} {
		if strings.Contains(out, bad) {
			m.t.Errorf("the agent %s:\n%s", bad, out)
		}
	}
	return out
}

func wallsUnderTheUnit(t *testing.T, m *machine) {
	m.write("/usr/local/bin/look", look, 0o755)
	m.write(configPath, lookConfig, 0o644)
	m.write("/etc/claudeops/secrets", "CLAUDEOPS_API_TOKEN=a-token-of-the-test-0123456789\n", 0o600)
	m.run("systemctl", "restart", "claudeops")
	out := m.session()
	contains(t, "session", out, "user claudeops-agent", "no capabilities 4", "has its own folder",
		"group /system.slice/claudeops.service/claudeops-")

	// doctor under the same restrictions, capabilities included.
	unit, err := os.ReadFile(filepath.Join(m.root, "usr/lib/systemd/system/claudeops.service"))
	must(t, err)
	var lines []string
	for line := range strings.Lines(string(unit)) {
		name, _, _ := strings.Cut(line, "=")
		switch name {
		case "Type":
			line = "Type=oneshot\n"
		case "ExecStart":
			line = "ExecStart=/usr/bin/claudeops doctor --config " + configPath + " -o jsonl\nStandardOutput=file:/run/doctor\n"
		case "ExecReload", "WatchdogSec", "NotifyAccess", "Restart", "RestartSec", "RestartPreventExitStatus":
			continue
		}
		lines = append(lines, strings.ReplaceAll(line, "system.slice/%n", "system.slice/claudeops-doctor.service"))
	}
	m.write("/usr/lib/systemd/system/claudeops-doctor.service", strings.Join(lines, ""), 0o644)
	m.run("systemctl", "daemon-reload")
	_, _ = m.try("systemctl", "start", "claudeops-doctor") // it fails if anything else is wrong, such as no agent CLI
	report := m.run("cat", "/run/doctor")
	for _, wall := range []string{"landlock", "capabilities", "seccomp", "uid", "bubblewrap", "sockets", "network", "floor"} {
		contains(t, "doctor", report, `{"check":"wall `+wall+`","state":"ok","detail":"on: `)
	}
	contains(t, "doctor", report, "every session gets its own cgroup", "a network of its own for each session", `{"check":"walls","state":"ok","detail":"on for all sessions"`)
	m.run("sh", "-c", "rm /usr/lib/systemd/system/claudeops-doctor.service && systemctl daemon-reload")
}

// rulesHost stands in for polkit: it asks the rule and prints what it allows.
const rulesHost = `
var rules = [], polkit = {addRule: function (r) { rules.push(r); }, Result: {YES: "yes"}};
eval(require("fs").readFileSync(process.argv[1], "utf8"));
function ask(user, unit, verb, id) {
    var values = {unit: unit, verb: verb};
    var action = {id: id || "org.freedesktop.systemd1.manage-units", lookup: function (name) { return values[name]; }};
    return rules[0](action, {user: user}) || "no";
}
console.log([ask("claudeops", "jellyfin.service", "restart"), ask("claudeops", "ssh.service", "restart"), ask("claudeops-agent", "jellyfin.service", "restart"),
    ask("claudeops", "jellyfin.service", "kill"), ask("claudeops", "jellyfin.service", "restart", "org.freedesktop.login1.reboot")].join(" "));
`

func TestThePolkitRuleAllowsNamedUnitsOnly(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node to run the rule")
	}
	rule := filepath.Join(checkout(t), "packaging", "examples", "50-claudeops.rules")
	out, err := exec.CommandContext(t.Context(), node, "-e", rulesHost, rule).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "yes no no no no" {
		t.Errorf("the rule says %s, %v", got, err)
	}
}

// The archive is installed, updated and removed by the script alone, and its unit is written by init, with a configuration elsewhere.
func TestAnArchiveIsInstalledUpdatedAndRemoved(t *testing.T) {
	made := theRelease(t)
	m := newMachine(t, trixie)
	script := string(read(t, filepath.Join(made.dist, "install.sh")))
	m.write("/root/install.sh", script, 0o755)
	m.run("mkdir", "-p", "/root/to", "/srv/ops", "/etc/sysusers.d")
	m.put(filepath.Join(made.dist, "claudeops_"+version+"_linux_amd64.tar.gz"), "/root/to/a.tar.gz")
	m.run("sh", "-c", "cd /root/to && tar -xzf a.tar.gz && cp */claudeops /usr/local/bin/claudeops && cp */systemd/claudeops.sysusers /etc/sysusers.d/claudeops.conf && systemd-sysusers")
	m.run("sh", "-c", "cd /srv/ops && /usr/local/bin/claudeops init --yes --service systemd && cp claudeops.service /etc/systemd/system/ && systemctl daemon-reload")
	m.run("systemctl", "enable", "--now", "claudeops")
	if got := m.state(); got != "active" {
		t.Fatalf("the service is %s", got)
	}
	// From another folder: the unit says where the configuration and the state are.
	contains(t, "link", m.run("sh", "-c", "cd / && /usr/local/bin/claudeops open"), "/login?code=")
	contains(t, "removal", m.run("sh", "/root/install.sh", "--uninstall"), "configuration and state stay")
	if m.state() == "active" || m.has("/usr/local/bin/claudeops") || m.has("/etc/systemd/system/claudeops.service") || !m.has(statePath+"/claudeops.db") {
		t.Errorf("after the removal the service is %s, the program is there: %t", m.state(), m.has("/usr/local/bin/claudeops"))
	}
	m.run("sh", "/root/install.sh", "--uninstall", "--purge")
	if left := m.run("sh", "-c", `find /etc /var/lib /usr -xdev -name '*claudeops*'; getent passwd claudeops claudeops-agent; true`); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

// There is no Alpine here: what is in the package, and what its scripts say, is all that can be seen.
func TestAnAPKHoldsItsFiles(t *testing.T) {
	m := theRelease(t)
	apk := filepath.Join(m.dist, "claudeops-"+version+"-r1.x86_64.apk")
	list, err := exec.CommandContext(t.Context(), "tar", "--ignore-zeros", "-tvzf", apk).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, list)
	}
	contains(t, "list", string(list), ".PKGINFO", ".pre-install", ".post-install", ".pre-deinstall", ".post-upgrade", " usr/bin/claudeops\n", " etc/claudeops/claudeops.yaml\n",
		" etc/init.d/claudeops\n", " usr/share/man/man1/claudeops-serve.1.gz\n", " usr/share/licenses/claudeops/LICENSE\n")
	if strings.Contains(string(list), "systemd") {
		t.Errorf("Alpine has no systemd:\n%s", list)
	}
	dir := t.TempDir()
	script := `cd "$1" && tar --ignore-zeros -xzf "$2" && cat .PKGINFO && for s in .p*-*; do sh -n "$s"; done && busybox sh -n etc/init.d/claudeops && usr/bin/claudeops --version`
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", dir, apk).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	contains(t, "package", string(out), "pkgname = claudeops", "pkgver = "+version+"-r1", "arch = x86_64", "depend = openrc", "claudeops "+version+" ")
}

func TestAnRPMIsInstalledUpgradedAndRemoved(t *testing.T) {
	made := theRelease(t)
	root := newRoot(t, bookworm)
	rpm := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "rpm", append([]string{"--root", root}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rpm %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	contains(t, "installation", rpm("-i", "--nodeps", made.rpm()), "systemctl enable --now claudeops")
	list := rpm("-ql", "claudeops")
	contains(t, "list", list, "/usr/bin/claudeops", configPath, "/usr/lib/systemd/system/claudeops.service", "/usr/share/man/man1/claudeops-serve.1.gz",
		"/usr/share/zsh/site-functions/_claudeops", "/usr/share/claudeops/prometheus-rules.yml", "/usr/share/claudeops/grafana-dashboard.json",
		"/usr/share/licenses/claudeops/LICENSE")
	contains(t, "configuration files", rpm("-qc", "claudeops"), configPath, "/etc/claudeops/secrets")
	contains(t, "scripts", rpm("-q", "--scripts", "claudeops"), "systemd-sysusers", "try-restart")
	passwd := string(read(t, filepath.Join(root, "etc/passwd")))
	contains(t, "users", passwd, "claudeops:", "claudeops-agent:")
	// systemd-tmpfiles makes the state folder, but not without /proc.
	if err := os.MkdirAll(filepath.Join(root, statePath), 0o711); err != nil { //nolint:gosec // as the package makes it
		t.Fatal(err)
	}
	file := filepath.Join(root, configPath)
	must(t, os.WriteFile(file, []byte("dry_run: true\ninterval: 3h\n"), 0o600))
	rpm("-U", "--nodeps", "--force", made.rpm())
	contains(t, "configuration after an upgrade", string(read(t, file)), "interval: 3h")
	data := filepath.Join(root, statePath, "claudeops.db")
	must(t, os.WriteFile(data, nil, 0o600))
	rpm("-e", "claudeops")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/claudeops")); err == nil {
		t.Error("the program is left")
	}
	if _, err := os.Stat(data); err != nil {
		t.Error("the data was removed")
	}
}
