package act_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/ops"
	"claudeops/internal/watch/probe"
)

// outerSystemd gives a systemd its own cgroup, mounts and processes; innerSystemd starts it with one unit.
const (
	outerSystemd = `mkdir "$1" && echo $$ >"$1/cgroup.procs" && exec unshare --mount --pid --fork --mount-proc --kill-child --uts --cgroup /bin/sh -c "$2"`
	innerSystemd = `set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /etc/systemd/system
if [ -d /sys/fs/cgroup/systemd ]; then
  mount -t tmpfs tmpfs /sys/fs/cgroup
  mkdir /sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
else
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
printf '[Unit]\nDefaultDependencies=no\n' >/etc/systemd/system/test.target
printf '[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 100000\n' >/etc/systemd/system/web.service
container=test exec /lib/systemd/systemd --system --unit=test.target --log-target=null`
)

// startSystemd runs a real systemd beside the machine's own processes and returns a systemctl that speaks to it. Where that does not
// work the test is skipped: what is asked of systemctl is tested with a stand-in in any case.
func startSystemd(t *testing.T, w *world) string {
	t.Helper()
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil || os.Getuid() != 0 {
		t.Skip("it needs systemd and root")
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("this machine is run by a systemd, which a second one could disturb")
	}
	group := "/sys/fs/cgroup"
	if _, err := os.Stat(group + "/systemd"); err == nil {
		group += "/systemd"
	}
	group = filepath.Join(group, "claudeops-test-"+strconv.Itoa(os.Getpid()))
	cmd := exec.Command("/bin/sh", "-c", outerSystemd, "sh", group, innerSystemd)
	must(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	inside := ""
	t.Cleanup(func() {
		// With the first process of its namespace all others end.
		if pid, err := strconv.Atoi(inside); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		} else {
			_ = cmd.Process.Kill()
		}
		<-done
		_ = exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
	})
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-deadline.C:
			t.Skip("systemd does not start here")
		case err := <-done:
			done <- err
			t.Skipf("systemd does not run here: %v", err)
		case <-tick.C:
		}
		pid := strconv.Itoa(cmd.Process.Pid)
		child, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
		if inside = strings.TrimSpace(string(child)); inside == "" || exec.Command("nsenter", "-t", inside, "-m", "-p", "systemctl", "show", "web.service").Run() != nil {
			continue
		}
		return w.script(t, "systemctl", `exec nsenter -t `+inside+` -m -p systemctl "$@"`)
	}
}

// Units of a real systemd are started, restarted and stopped, and probed by their state.
func TestUnitsOfARealSystemd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	systemctl := startSystemd(t, w)
	show := func(property string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), systemctl, "show", "--value", "-p", property, "web.service").Output()
		must(t, err)
		return strings.TrimSpace(string(out))
	}
	var actions []ops.ActionSpec
	for _, kind := range []ops.ActionKind{ops.ActionStart, ops.ActionRestart, ops.ActionStop} {
		actions = append(actions, ops.ActionSpec{
			Name: string(kind), Service: "web", Kind: kind, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute, Unit: "web.service",
		})
	}
	missing := actions[0]
	missing.Name, missing.Unit = "missing", "nothing.service"
	w.env.Policy.Inventory.Services[0].Actions = append(actions, missing)
	w.env.Probes = []ops.ProbeSpec{{Service: "web", Type: "command", Command: []string{systemctl, "is-active", "--quiet", "web.service"}, Timeout: 10 * time.Second}}
	w.options.Prober, w.options.Systemctl = probe.New(probe.Options{Clock: time.Now}), systemctl
	w.rebuild()

	out := w.do(t, "start")
	first := show("MainPID")
	if out.Run.Status != ops.ActionDone || out.Run.Before[0].Status != ops.Down || out.Run.After[0].Status != ops.Healthy || first == "0" {
		t.Fatalf("%+v, pid %s", out, first)
	}
	if out := w.do(t, "restart"); out.Run.Status != ops.ActionDone || show("MainPID") == first || show("ActiveState") != "active" {
		t.Errorf("%+v, pid %s", out, show("MainPID"))
	}
	out = w.do(t, "stop")
	if out.Run.Status != ops.ActionDone || out.Undo != nil || out.Run.After[0].Status != ops.Down || show("ActiveState") != "inactive" {
		t.Errorf("%+v, %s", out, show("ActiveState"))
	}
	undo, err := w.Store.Acts.RequestAction(t.Context(), ops.ActionRun{Environment: "home", Service: "web", Action: "stop", Person: "ada", Why: "wrong", UndoOf: out.Run.ID}, time.Time{})
	must(t, err)
	back, err := w.runner.Undo(t.Context(), act.Request{Environment: w.env, Run: out.Run.ID, Why: "wrong", Person: "ada", ID: undo.ID})
	must(t, err)
	if back.Run.Status != ops.ActionDone || show("ActiveState") != "active" {
		t.Errorf("%+v, %s", back, show("ActiveState"))
	}
	if out := w.do(t, "missing"); out.Run.Status != ops.ActionFailed || !strings.Contains(out.Run.Output, "nothing.service not found") {
		t.Errorf("%+v", out)
	}
}
