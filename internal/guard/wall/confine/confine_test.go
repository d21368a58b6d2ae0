//go:build linux

package confine_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"claudeops/internal/guard/wall/confine"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == confine.Word {
		syscall.Exit(confine.Main(os.Args[2:], os.Environ(), os.Stdout, os.Stderr)) //nolint:forbidigo // passed on unread; os.Exit waits a second under the race detector
	}
	os.Exit(m.Run())
}

// behind runs a script behind a wall.
func behind(t *testing.T, w *confine.Wall, script string) (string, int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv, err := confine.Arguments(self, confine.Plan{Walls: []*confine.Wall{w}}, "/bin/bash", []string{"bash", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if failed != nil {
		return string(out), failed.ExitCode()
	}
	return string(out), 0
}

func TestEachWallHoldsWhatItIsFor(t *testing.T) {
	dir, own := t.TempDir(), t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	system := []string{"/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", "/sys"}
	pid := strconv.Itoa(os.Getpid())
	wall := func() *confine.Wall {
		return &confine.Wall{Read: system, Write: []string{own, "/dev/null"}, NoUnix: true, KeepMetadata: true}
	}
	for name, c := range map[string]struct {
		script string
		works  bool
	}{
		"write its own folder":      {"echo x > " + own + "/f && mkdir " + own + "/d && mv " + own + "/f " + own + "/d/g", true},
		"touch a new file":          {"touch " + own + "/new", true},
		"read the system":           {"cat /etc/passwd > /dev/null", true},
		"see processes":             {"test -r /proc/" + pid + "/stat", true},
		"list names":                {"ls " + dir, true},
		"start programs":            {"echo a | sed s/a/b/ | grep -q b", true},
		"lower its own priority":    {"nice -n 5 true", true},
		"write elsewhere":           {"echo x > " + dir + "/f", false},
		"read a secret":             {"cat " + secret, false},
		"remove a secret":           {"rm -f " + secret, false},
		"move a secret":             {"mv " + secret + " " + own, false},
		"link a secret":             {"ln " + secret + " " + own + "/link", false},
		"change a mode":             {"chmod 644 " + secret, false},
		"change times":              {"touch -d yesterday " + secret, false},
		"change times to now":       {"touch -c " + secret, false},
		"signal another process":    {"kill -0 " + pid, false},
		"slow another process down": {"renice -n 19 -p " + pid, false},
		"limit another process":     {"prlimit --pid " + pid + " --core=0", false},
		"read its environment":      {"cat /proc/" + pid + "/environ", false},
		"read its memory":           {"head -c1 /proc/" + pid + "/mem", false},
		"make a namespace":          {"unshare -U true", false},
		"mount":                     {"mount -t tmpfs x " + own, false},
		"change its root":           {"chroot / true", false},
		"set the kernel":            {": >> /proc/sys/kernel/hostname", false},
		"read a disk":               {"head -c1 /dev/vda", false},
		"keep a capability":         {"grep -q 'CapEff.*[1-9a-f]' /proc/self/status", false},
		"keep the bounding set":     {"test $(id -u) -eq 0 && grep -q 'CapBnd.*[1-9a-f]$' /proc/self/status", false},
		"gain privileges":           {"grep -q 'NoNewPrivs:.*0' /proc/self/status", false},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := behind(t, wall(), c.script)
			if (code == 0) != c.works {
				t.Errorf("exit %d: %s", code, out)
			}
		})
	}
	t.Run("trial", func(t *testing.T) {
		w := wall()
		w.Trial = &confine.Trial{Write: []string{secret}, Read: []string{secret}, Process: os.Getpid(), Sockets: []string{socket}, Own: own}
		if out, code := behind(t, w, "true"); code != 0 {
			t.Errorf("exit %d: %s", code, out)
		}
		// A wall with holes is noticed.
		w.Read, w.Write, w.NoUnix = append(w.Read, dir), append(w.Write, dir), false
		out, code := behind(t, w, "echo started")
		for _, want := range []string{secret + " can be written", secret + " can be read", socket + " can be reached"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q does not say %q", out, want)
			}
		}
		if code == 0 || strings.Contains(out, "started") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
}
