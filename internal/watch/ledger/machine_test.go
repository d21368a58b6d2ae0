package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/ledger"
	"claudeops/test/dockertest"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func services(s ...ops.Service) ops.Environment {
	return ops.Environment{Policy: ops.Policy{Inventory: ops.Inventory{Services: s}}}
}

func TestChangesOfContainers(t *testing.T) {
	d := dockertest.Shared(t)
	d.Container(t, "ledger-web", "--env", "TOKEN=one")
	env := services(ops.Service{Name: "web", Container: "ledger-web"})
	w := newWorld(t, env, ledger.Containers{Socket: d.Socket})
	w.findsNothing()
	w.findsNothing()

	d.Docker(t, "restart", "--time", "0", "ledger-web")
	c := w.finds("container ledger-web: started again")
	if c.Service != "web" || !c.At.Before(w.now) && !c.At.Equal(w.now) {
		t.Errorf("it is %+v", c)
	}
	d.Docker(t, "stop", "--time", "0", "ledger-web")
	w.finds("container ledger-web: state running → exited (")
	d.Docker(t, "rm", "ledger-web")
	w.finds("container ledger-web: is gone")
	d.Container(t, "ledger-web", "--env", "TOKEN=two", "--memory", "64m")
	w.finds("container ledger-web: is new")
	d.Docker(t, "rm", "--force", "ledger-web")
	d.Docker(t, "tag", dockertest.Image, "claudeops-test:2")
	t.Cleanup(func() { d.Docker(t, "rmi", "claudeops-test:2") })
	d.Docker(t, "run", "--detach", "--network", "host", "--name", "ledger-web", "--env", "TOKEN=three", "claudeops-test:2", "sh", "-c",
		dockertest.Server)
	t.Cleanup(func() { d.Docker(t, "rm", "--force", "ledger-web") })
	got := w.finds("recreated", "image claudeops-test:1", "→ claudeops-test:2", "environment changed", "limits changed", "started again")
	for _, p := range w.store.resources["containerledger-web"].Parts {
		if strings.Contains(p.Value, "three") || strings.Contains(got.Text, "three") {
			t.Errorf("a value of the environment is kept: %+v", p)
		}
	}

	// Containers of other environments are theirs, and those that remove themselves come and go.
	other := services(ops.Service{Name: "web", Container: "ledger-web"})
	other.Name = "office"
	mine := newWorld(t, services(), ledger.Containers{
		Socket: d.Socket, Environments: []ops.Environment{{Name: "home"}, other},
	})
	mine.findsNothing()
	if _, there := mine.store.resources["containerledger-web"]; there {
		t.Error("a container of another environment is looked at")
	}
}

// A service cannot change what is mounted read-only: somebody else did.
func TestChangesOfFilesThatAServiceOnlyReads(t *testing.T) {
	d := dockertest.Shared(t)
	conf, data, many := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(conf, "web.conf"), "port 80\n")
	write(t, filepath.Join(conf, ".git", "index"), "a")
	for i := range 30 {
		write(t, filepath.Join(many, "pages", fmt.Sprint(i)), "page")
	}
	d.Container(t, "ledger-files", "-v", conf+":/conf:ro", "-v", data+":/data", "-v", many+":/many:ro")
	w := newWorld(t, services(ops.Service{Name: "web", Container: "ledger-files"}),
		ledger.Containers{Socket: d.Socket})
	w.findsNothing()

	write(t, filepath.Join(conf, "web.conf"), "port 81\n")
	if c := w.finds("container ledger-files: file " + filepath.Join(conf, "web.conf") + " changed"); c.Service != "web" {
		t.Errorf("it is %+v", c)
	}
	must(t, os.Chmod(filepath.Join(conf, "web.conf"), 0o600))
	w.finds("file " + filepath.Join(conf, "web.conf") + " changed")
	write(t, filepath.Join(conf, "extra.conf"), "")
	w.finds("file " + filepath.Join(conf, "extra.conf") + " added")
	write(t, filepath.Join(many, "pages", "7"), "another page")
	w.finds("files in " + many + " changed")
	write(t, filepath.Join(data, "rows"), "what the service writes itself")
	write(t, filepath.Join(conf, ".git", "index"), "b")
	w.findsNothing()
}

func TestAnEngineThatIsNotThere(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "docker.sock")
	w := newWorld(t, services(), ledger.Containers{Socket: nowhere})
	w.findsNothing()
	if got := w.unseen(ops.ChangeContainer, ""); got != "" {
		t.Errorf("a machine without Docker is not seen: %s", got)
	}
	w = newWorld(t, services(ops.Service{Name: "web", Container: "web"}), ledger.Containers{Socket: nowhere})
	w.findsNothing()
	if got := w.unseen(ops.ChangeContainer, ""); !strings.Contains(got, "no such file") {
		t.Errorf("not seen: %q", got)
	}
}

// systemctl is a program that shows one unit as systemd does.
func systemctl(t *testing.T, fragment, dropIn, started string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "systemctl")
	script := fmt.Sprintf("#!/bin/sh\nprintf 'FragmentPath=%s\\nDropInPaths=%s\\nActiveState=active\\nNRestarts=0\\nExecMainStartTimestamp=%s\\n"+
		"StateChangeTimestamp=%s\\n'\n", fragment, dropIn, started, started)
	must(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

func TestChangesOfUnits(t *testing.T) {
	dir := t.TempDir()
	file, dropIn := filepath.Join(dir, "web.service"), filepath.Join(dir, "web.service.d", "limits.conf")
	write(t, file, "[Service]\nExecStart=/bin/web\n")
	const format = "Mon 2006-01-02 15:04:05 MST"
	units := &ledger.Units{Systemctl: systemctl(t, file, "", "Tue 2026-01-06 10:00:00 UTC")}
	w := newWorld(t, services(ops.Service{Name: "web", Unit: "web.service"}), units)
	w.findsNothing()
	write(t, file, "[Service]\nExecStart=/bin/web --port 81\n")
	if c := w.finds("unit web.service: " + file + " changed"); c.Service != "web" {
		t.Errorf("it is %+v", c)
	}
	write(t, dropIn, "[Service]\nLimitNOFILE=10\n")
	units.Systemctl = systemctl(t, file, dropIn, "Tue 2026-01-06 10:00:00 UTC")
	w.finds(dropIn + " added")
	units.Systemctl = systemctl(t, file, "", "Tue 2026-01-06 10:00:00 UTC")
	w.finds(dropIn + " removed")
	started := w.now.Add(time.Minute).UTC().Truncate(time.Second)
	units.Systemctl = systemctl(t, file, "", started.Format(format))
	if c := w.finds("started again"); !c.At.Equal(started) {
		t.Errorf("it was started at %s", c.At)
	}
	units.Systemctl = filepath.Join(dir, "nowhere")
	w.findsNothing()
	if got := w.unseen(ops.ChangeUnit, "web.service"); !strings.Contains(got, "no such file") {
		t.Errorf("not seen: %q", got)
	}
}

func TestChangesOfPackages(t *testing.T) {
	log := filepath.Join(t.TempDir(), "dpkg.log")
	w := newWorld(t, ops.Environment{}, ledger.Packages{Log: log})
	w.findsNothing()
	if got := w.unseen(ops.ChangePackage, ""); !strings.Contains(got, "only the log of dpkg is read") {
		t.Errorf("not seen: %q", got)
	}
	first := "2026-01-02 03:04:05 upgrade old:amd64 1 2\n"
	write(t, log, first)
	w.findsNothing()
	write(t, log, first+"2026-01-02 03:04:06 startup archives unpack\n2026-01-02 03:04:07 upgrade libssl3:amd64 3.0.1 3.0.2\n"+
		"2026-01-02 03:04:07 status installed libssl3:amd64 3.0.2\n2026-01-02 03:04:09 status half-installed x:amd64 1\n")
	c := w.finds("packages dpkg: upgraded libssl3 3.0.1 → 3.0.2")
	if want := time.Date(2026, 1, 2, 3, 4, 7, 0, time.Local); !c.At.Equal(want) {
		t.Errorf("it happened at %s, want %s", c.At, want)
	}
	w.findsNothing()
	// It is rotated, and many packages are one change.
	must(t, os.Rename(log, log+".1"))
	text := ""
	for i := range 20 {
		text += fmt.Sprintf("2026-01-03 03:04:%02d install p%d:all <none> 1.%d\n", i, i, i)
	}
	write(t, log, text)
	w.finds("installed p0 1.0, p1 1.1, p2 1.2, p3 1.3, p4 1.4, p5 1.5 and 14 more")
	write(t, log, text+"2026-01-04 03:04:05 remove p1:all 1.1 <none>\n2026-01-04 03:04:06 purge p1:all 1.1 <none>\n")
	w.finds("removed p1")
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), //nolint:forbidigo // where git is
		"HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestChangesOfClones(t *testing.T) {
	repos := t.TempDir()
	origin, clone := filepath.Join(t.TempDir(), "infra"), filepath.Join(repos, "infra")
	git(t, repos, "init", "-q", origin)
	git(t, origin, "commit", "-q", "--allow-empty", "-m", "first")
	git(t, repos, "clone", "-q", origin, clone)
	w := newWorld(t, ops.Environment{ReposDir: repos}, ledger.Repositories{})
	w.findsNothing()
	git(t, origin, "commit", "-q", "--allow-empty", "-m", "use port 81")
	git(t, origin, "commit", "-q", "--allow-empty", "-m", "use hunter2")
	w.findsNothing()
	git(t, clone, "pull", "-q")
	c := w.finds("repository infra: head ", "use [redacted]; use port 81")
	if c.NotBefore.After(time.Now()) || time.Since(c.At) > time.Hour {
		t.Errorf("it happened at %s", c.At)
	}
	// A program that the settings of a clone name is not run.
	mark, script := filepath.Join(t.TempDir(), "ran"), filepath.Join(t.TempDir(), "evil")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755))
	git(t, clone, "commit", "-q", "--allow-empty", "-m", "evil")
	for _, key := range []string{"core.fsmonitor", "core.pager", "gpg.program"} {
		git(t, clone, "config", key, script)
	}
	git(t, clone, "config", "log.showSignature", "true")
	w.finds("evil")
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program that the repository names was run")
	}
	must(t, os.RemoveAll(clone))
	w.finds("repository infra: is gone")
}

func TestChangesOfDisks(t *testing.T) {
	mounts := filepath.Join(t.TempDir(), "mountinfo")
	const root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
	write(t, mounts, root+"23 22 8:1 / /again rw - ext4 /dev/sda1 rw\n24 22 0:5 / /net rw - nfs4 server:/x rw\n"+
		"25 22 8:2 / /my\\040data rw shared:1 - xfs /dev/sdb1 rw\n")
	used := map[string]float64{"/": 50, "/my data": 91}
	w := newWorld(t, ops.Environment{}, ledger.Disks{Mounts: mounts, Used: func(path string) (float64, error) {
		if percent, ok := used[path]; ok {
			return percent, nil
		}
		return 0, errors.New("unexpected " + path)
	}})
	w.findsNothing()
	if len(w.store.resources) != 3 {
		t.Errorf("looked at %+v", w.store.resources)
	}
	used["/"] = 79
	w.findsNothing() // it does not matter
	used["/"] = 95.5
	w.finds("disk /: use below 80 % → 95 % or more")
	used["/"] = 94
	w.findsNothing() // only just below
	used["/"] = 100
	w.finds("use 95 % or more → 99.5 % or more")
	used["/"] = 10
	w.finds("use 99.5 % or more → below 80 %")
	write(t, mounts, root)
	w.finds("disk /my data: is gone")

	this := newWorld(t, ops.Environment{}, ledger.Disks{Mounts: "/proc/self/mountinfo", Used: ledger.Used})
	this.findsNothing()
	this.findsNothing()
	if percent, err := ledger.Used(t.TempDir()); err != nil || percent < 0 || percent > 100 {
		t.Errorf("%g %% are used: %v", percent, err)
	}
}

func TestAStartOfTheMachine(t *testing.T) {
	proc := t.TempDir()
	write(t, filepath.Join(proc, "sys/kernel/random/boot_id"), "one\n")
	write(t, filepath.Join(proc, "sys/kernel/osrelease"), "6.1.0-17\n")
	w := newWorld(t, ops.Environment{}, ledger.Boot{Proc: proc})
	w.findsNothing()
	at := w.now.Add(time.Minute).Truncate(time.Second)
	write(t, filepath.Join(proc, "sys/kernel/random/boot_id"), "two\n")
	write(t, filepath.Join(proc, "sys/kernel/osrelease"), "6.1.0-18\n")
	write(t, filepath.Join(proc, "stat"), fmt.Sprintf("cpu 1 2\nbtime %d\n", at.Unix()))
	if c := w.finds("machine boot: started again; kernel 6.1.0-17 → 6.1.0-18"); !c.At.Equal(at) {
		t.Errorf("it was started at %s", c.At)
	}
	this := newWorld(t, ops.Environment{}, ledger.Boot{Proc: "/proc"})
	this.findsNothing()
	if got := this.unseen(ops.ChangeBoot, ""); got != "" {
		t.Errorf("not seen: %s", got)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
