package main_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/needs"
)

// agentUser is a user without rights, as agents have one of their own.
const agentUser = 65534

// asking is a daemon whose cycle waits for an approval.
func asking(t *testing.T, env ...string) (*box, *daemon) {
	t.Helper()
	b := newBox(t, chain(), append(env, "CLAUDEOPS_APPROVAL_TIER=2")...)
	d := b.ready()
	d.until("the cycle waits for a person", func() bool {
		c, ok := b.newest()
		return ok && c.Cycle.Status == ops.CycleWaitingHuman
	})
	return b, d
}

func (b *box) approval() (out ops.Approval) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		found, err := s.People.Approvals(context.Background(), store.ApprovalFilter{Limit: 1})
		if err != nil || len(found) != 1 {
			b.t.Fatalf("approvals %v, %v", found, err)
		}
		out = found[0]
	})
	return out
}

// audits are what was recorded about people.
func (b *box) audits() string {
	b.t.Helper()
	var out strings.Builder
	b.read(func(s *store.Store) {
		events, err := s.Journal.Events(context.Background(), store.EventFilter{Kind: string(ops.EventAudit), Limit: 100})
		must(b.t, err)
		for _, e := range events {
			fmt.Fprintln(&out, e.Level, e.Message.Words())
		}
	})
	return out.String()
}

func TestEverythingNeedsATokenOnLoopbackToo(t *testing.T) {
	t.Parallel()
	b, d := asking(t)
	info, err := os.Stat(filepath.Join(b.state, "api-token"))
	if err != nil || info.Mode().Perm() != 0o600 || len(d.token()) < 20 {
		t.Fatalf("the token is %v, %v", info, err)
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/login": 200, "/schemas/handoff/v1.json": 200,
		"/": 303, "/sessions": 303, "/api/v1/cycles": 401, "/metrics": 401,
	} {
		if got, body := d.getAs("", path); got != want {
			t.Errorf("%s without a token: %d %s", path, got, body)
		}
		if got, _ := d.getAs("a-wrong-token-of-good-length", path); got != want {
			t.Errorf("%s with a wrong token: %d", path, got)
		}
	}
	// A process that an agent reached through a relay: it comes from loopback and has no token.
	r, err := d.send(http.MethodPost, "/api/v1/approvals/1/approve", "", strings.NewReader("{}"))
	must(t, err)
	_ = r.Body.Close()
	if r.StatusCode != http.StatusUnauthorized || b.approval().Status != ops.ApprovalPending {
		t.Errorf("an approval without a token: %d, it is %s", r.StatusCode, b.approval().Status)
	}
	token := d.token()
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	d = b.ready()
	if d.token() != token {
		t.Error("the token changed with the restart")
	}
	if strings.Contains(d.log.String(), token) {
		t.Error("the log shows the token")
	}
}

func TestASignInLinkOpensThePagesOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	d := b.ready()
	r := b.run("open")
	link := strings.TrimSpace(r.stdout)
	if r.code != 0 || !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/login\?code=[A-Z0-9]{20,}$`).MatchString(link) {
		t.Fatalf("open exits %d: %s%s", r.code, r.stdout, r.stderr)
	}
	path := strings.TrimPrefix(link, "http://"+d.addr)
	answer, err := d.send(http.MethodGet, path, "", nil)
	must(t, err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 {
		t.Errorf("the link: %d, %v", answer.StatusCode, answer.Cookies())
	}
	if status, _ := d.getAs("", path); status != http.StatusUnauthorized {
		t.Errorf("the link again: %d", status)
	}
	contains(t, "the log", d.log.String(), "claudeops open")
	if strings.Contains(d.log.String(), "code=") {
		t.Errorf("the log holds a link:\n%s", d.log)
	}
	d.stop()
	if r := b.run("open"); r.code == 0 || !strings.Contains(r.stderr, "claudeops serve") {
		t.Errorf("without a daemon, open exits %d: %s", r.code, r.stderr)
	}
}

// TestAProcessOfASessionCannotApprove plays an agent that runs the program itself, and one that has even the token.
func TestAProcessOfASessionCannotApprove(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: another user and a cgroup")
	}
	b, d := asking(t)
	d.stop()
	b.configured(fmt.Sprintf("sandbox: {uid: %d, mode: off}\n", agentUser)) // no more session starts in this test
	d = b.ready()
	for _, dir := range []string{filepath.Dir(b.state), b.state} { // as the walls do it
		if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // a folder
			t.Fatal(err)
		}
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		needs.End(t, needs.Absent("curl"))
	}
	approve := []string{program, "approvals", "approve", "1"}
	post := []string{
		curl, "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", "-H", "Authorization: Bearer " + d.token(),
		"http://" + d.addr + "/api/v1/approvals/1/approve",
	}
	group := sessionCgroup(t)
	for name, tt := range map[string]struct {
		argv []string
		env  []string
		sys  *syscall.SysProcAttr
		says string
	}{
		"key":                {approve, []string{"CLAUDEOPS_SESSION_KEY=0123456789abcdef0123456789abcdef"}, nil, "inside a session"},
		"cgroup":             {approve, nil, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group}, "inside a session"},
		"cgroup to the API":  {post, nil, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group}, "403"},
		"user to the API":    {post, nil, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: agentUser, Gid: agentUser}}, "403"},
		"cgroup to the door": {socketCall(curl, b), nil, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group}, "part of a session"},
		"key to the door":    {socketCall(curl, b), []string{"CLAUDEOPS_SESSION_KEY=0123456789abcdef0123456789abcdef"}, nil, "part of a session"},
	} {
		c := exec.Command(tt.argv[0], tt.argv[1:]...)
		c.Env = append(append([]string{}, b.env...), tt.env...)
		c.SysProcAttr = tt.sys
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		_ = c.Run() // its output and the approval tell
		if !strings.Contains(out.String(), tt.says) || b.approval().Status != ops.ApprovalPending {
			t.Errorf("%s: %s; the approval is %s", name, out.String(), b.approval().Status)
		}
	}
	var told strings.Builder
	for _, e := range b.events(ops.LevelCritical) {
		fmt.Fprintln(&told, e.Kind(), e.Message.Words())
	}
	contains(t, "the critical events", told.String(), "guard a process of user", "refused at the control socket", "refused at the web pages",
		"the user of the agents", "part of a session: cgroup", "part of a session: session key")

	if r := b.run("approvals", "approve", "1", "--reason", "go ahead"); r.code != 0 {
		t.Fatalf("the operator: exit %d %s", r.code, r.stderr)
	}
	if a := b.approval(); a.Status != ops.ApprovalApproved || a.AnsweredBy != "root" {
		t.Errorf("the approval is %s by %s", a.Status, a.AnsweredBy)
	}
	contains(t, "the record", b.audits(), "info root from control socket: POST /api/v1/approvals/1/approve (200 OK)")
}

// socketCall asks the control socket for a sign-in link without the help of the program.
func socketCall(curl string, b *box) []string {
	return []string{curl, "-s", "-X", "POST", "--unix-socket", filepath.Join(b.state, "control.sock"), "http://localhost/control/sign-in"}
}

// sessionCgroup makes a cgroup with the name of a session's and returns a descriptor of it.
func sessionCgroup(t *testing.T) int {
	t.Helper()
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		root = "/sys/fs/cgroup/unified"
	}
	path := filepath.Join(root, fmt.Sprintf("claudeops-%032x", os.Getpid()))
	if err := os.Mkdir(path, 0o755); err != nil { //nolint:gosec // what the kernel expects
		t.Skipf("no cgroup can be made: %v", err)
	}
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = f.Close(); _ = syscall.Rmdir(path) })
	return int(f.Fd())
}

func TestAnOpenStateFolderIsRefused(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	for mode, refused := range map[os.FileMode]bool{0o755: true, 0o770: true, 0o702: true, 0o711: false, 0o750: false, 0o700: false} {
		must(t, os.Chmod(b.state, mode))
		r := b.run("once")
		if (r.code != 0) != refused || strings.Contains(r.stderr, "chmod 0700 '"+b.state+"'") != refused {
			t.Errorf("mode %o: exit %d %s", mode, r.code, r.stderr)
		}
	}
}

func TestCommandsAreRecordedWithoutADaemonToo(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	if r := b.run("memory", "add", "starts slowly"); r.code != 0 {
		t.Fatalf("exit %d %s", r.code, r.stderr)
	}
	if r := b.run("memory", "rm", "99"); r.code == 0 {
		t.Fatal("a memory that is not there was removed")
	}
	// An agent may not do it, whatever it can reach.
	if r := b.runWith([]string{"CLAUDEOPS_SESSION_KEY=0123456789abcdef0123456789abcdef"}, "memory", "rm", "1"); r.code == 0 {
		t.Error("it works inside a session")
	}
	contains(t, "the record", b.audits(), "from command line: claudeops memory add starts slowly (done)",
		"from command line: claudeops memory rm 99 (failed)")
	d := b.ready()
	if r := b.run("memory", "add", "is noisy"); r.code != 0 {
		t.Fatalf("exit %d %s", r.code, r.stderr)
	}
	contains(t, "the record", b.audits(), "from control socket: POST /api/v1/memories (201 Created)")
	d.stop()
}

func TestACommandFindsTheMadeTokenOfALocalServer(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	d := b.ready()
	if r := b.run("--server", "http://"+d.addr, "cycles", "list"); r.code != 0 {
		t.Errorf("exit %d %s", r.code, r.stderr)
	}
}
