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
	if len(os.Args) > 1 && os.Args[1] == "only-read" {
		syscall.Exit(confine.OnlyRead(os.Args[2:], os.Environ(), os.Stderr)) //nolint:forbidigo // as above
	}
	os.Exit(m.Run())
}

// What nobody has read has the rights of cat, and so has everything that it starts.
func TestAProgramThatOnlyReads(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "f"), filepath.Join(dir, "s")
	must(t, os.WriteFile(file, []byte("one 1\ntwo 2\n"), 0o600))
	l, err := net.Listen("unix", socket)
	must(t, err)
	defer func() { _ = l.Close() }()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = tcp.Close() }()
	host, port, err := net.SplitHostPort(tcp.Addr().String())
	must(t, err)
	for name, c := range map[string]struct {
		argv []string
		out  string // of a program that works
	}{
		"counts":            {[]string{"/usr/bin/awk", "{n += $2} END {print n}", file}, "3\n"},
		"repeats a reader":  {[]string{"find", dir, "-name", "f", "-exec", "head", "-n", "1", "{}", "+"}, "one 1\n"},
		"starts a pipe":     {[]string{"awk", "BEGIN {\"cat " + file + " | wc -l\" | getline n; print n}"}, "2\n"},
		"writes":            {[]string{"sh", "-c", "echo x > " + dir + "/g"}, ""},
		"appends":           {[]string{"sh", "-c", "echo x >> " + file}, ""},
		"removes":           {[]string{"rm", "-f", file}, ""},
		"changes a mode":    {[]string{"chmod", "777", file}, ""},
		"signals":           {[]string{"kill", "-0", strconv.Itoa(os.Getpid())}, ""},
		"asks by TCP":       {[]string{"bash", "-c", "exec 3<>/dev/tcp/" + host + "/" + port}, ""},
		"asks by UDP":       {[]string{"bash", "-c", "exec 3<>/dev/udp/" + host + "/" + port}, ""},
		"asks a socket":     {[]string{"perl", "-MIO::Socket::UNIX", "-e", "IO::Socket::UNIX->new(Peer => shift) or exit 1", socket}, ""},
		"is not there":      {[]string{"no-such-program"}, ""},
		"writes by awk":     {[]string{"awk", "BEGIN {print 1 > \"" + dir + "/h\"; if (close(\"" + dir + "/h\")) exit 1}"}, ""},
		"starts by another": {[]string{"xargs", "-a", file, "touch", dir + "/i"}, ""},
	} {
		out, err := exec.CommandContext(t.Context(), self, append([]string{"only-read"}, c.argv...)...).Output()
		if (err == nil) != (c.out != "") || string(out) != c.out {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

// behind runs a script behind a wall.
func behind(t *testing.T, w *confine.Wall, script string) (string, int) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	argv, err := confine.Arguments(self, confine.Plan{Walls: []*confine.Wall{w}}, "/bin/bash", []string{"bash", "-c", script})
	must(t, err)
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
	must(t, os.WriteFile(secret, []byte("x"), 0o600))
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
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
		"set a set-user-id bit":     {"perl -e 'sysopen(F, \"" + own + "/u\", 0x41, 04755) or exit 1'", false},
		"set a set-group-id bit":    {"mkfifo -m 2755 " + own + "/p", false},
		"open what has a mode":      {"perl -e 'sysopen(F, \"" + own + "/n\", 0x41, 0755) and sysopen(F, \"" + own + "/n\", 0, 06777) or exit 1'", true},
		"open by a structure":       {"perl -e '$h = pack(\"Q3\", 0x41, 04755, 0); exit(syscall(437, -100, \"" + own + "/s\", $h, 24) < 0)'", false},
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
	t.Run("set-id bits of its own files", func(t *testing.T) {
		w := wall()
		w.KeepMetadata = false
		f := filepath.Join(own, "program")
		out, code := behind(t, w, "cp /bin/true "+f+" && chmod 755 "+f+" || exit 9; chmod u+s "+f+" || chmod 2755 "+f+" || mkdir "+own+"/x && chmod g+s "+own+"/x")
		if info, err := os.Stat(f); code != 1 || err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("exit %d: %s %v %v", code, out, info, err)
		}
	})
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

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
