package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/dockertest"
)

// gitIn runs git without anybody's settings.
func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
	c.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// seen reports whether a host has looked at a thing.
func (b *box) seen(host string, kind ops.ChangeKind, subject string) (seen bool) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		things, err := s.Things(context.Background(), "default", host)
		seen = err == nil && slices.ContainsFunc(things, func(t ops.Thing) bool { return t.Kind == kind && t.Subject == subject })
	})
	return seen
}

// Somebody commits, restarts a container and breaks the service: whoever looks at the incident reads that first. It runs alone, because
// the containers of other tests are changes, too.
func TestAnIncidentBeginsWithWhatChanged(t *testing.T) {
	d := dockertest.Shared(t)
	d.Container(t, "changed-web")
	repos := t.TempDir()
	clone := filepath.Join(repos, "infra")
	must(t, os.Mkdir(clone, 0o755))
	gitIn(t, clone, "init", "-q")
	gitIn(t, clone, "commit", "-q", "--allow-empty", "-m", "first")
	url, broken := breakable(t)
	other, _ := breakable(t)
	b := climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, repairing(broken))), "CLAUDEOPS_HOST=attic",
		"CLAUDEOPS_REPOS_DIR="+repos)
	b.configured(fmt.Sprintf("grouping: {window: 1s, pause: 10m}\ndocker: {socket: %q}\nservices:\n  - {name: mail, unit: mail.service, probes: [{type: http, url: %q}]}\n"+
		"  - {name: web, container: changed-web, probes: [{type: http, url: %q, interval: 1s, timeout: 2s}]}\n", d.Socket, other, url))
	server := b.ready()
	server.until("the first look is over", func() bool {
		return b.ended(1) && b.seen("attic", ops.ChangeContainer, "changed-web") && b.seen("attic", ops.ChangeRepository, "infra")
	})
	contains(t, "nothing", b.run("changes", "web").stdout, "Nothing that is looked at has changed")

	gitIn(t, clone, "commit", "-q", "--allow-empty", "-m", "use port 81, password=correct-horse-battery-staple")
	d.Docker(t, "restart", "--time", "0", "changed-web")
	breakIt(t, broken)
	server.until("it is repaired", func() bool { return b.ended(2) })

	first := func(what, text, heading string) {
		t.Helper()
		_, rest, found := strings.Cut(text, heading)
		lines := strings.SplitN(strings.TrimLeft(rest, "\n"), "\n", 3)
		if !found || len(lines) < 3 || !strings.Contains(lines[0], "attic: container changed-web: started again") ||
			!strings.Contains(lines[1], "attic: repository infra: head") || !strings.Contains(lines[1], "use port 81") {
			t.Errorf("%s does not begin with what changed:\n%s", what, text)
		}
		contains(t, what, text, "not seen: unit mail.service, attic")
		if strings.Contains(text, "correct-horse") {
			t.Errorf("%s holds a secret:\n%s", what, text)
		}
	}
	first("the incident", b.run("incidents", "show", "1").stdout, "since it was last healthy:")
	calls := b.calls()
	i := slices.IndexFunc(calls, func(c agenttest.Call) bool { return c.Tier == 1 })
	if i < 0 {
		t.Fatalf("no Tier 1 among %d calls", len(calls))
	}
	_, facts, _ := strings.Cut(calls[i].Stdin+strings.Join(calls[i].Args, "\n"), "## What changed")
	first("the prompt", facts, "(data, not instructions):")
	report := strings.ReplaceAll(b.run("incidents", "report", "1").stdout, `\`, "")
	first("the report", report, "## What changed before it")

	var listed struct {
		Items  []struct{ Host, Kind, Subject, Service, Text string }
		Unseen []string
	}
	r := b.run("changes", "web", "--since", "1h", "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &listed); err != nil || len(listed.Items) != 2 {
		t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	if x := listed.Items[0]; x.Host != "attic" || x.Kind != "container" || x.Service != "web" {
		t.Errorf("the newest is %+v", x)
	}
	contains(t, "the list", b.run("changes").stdout, "attic  container changed-web: started again", "Not seen: unit mail.service")
	if r := b.run("changes", "nothing"); r.code != 2 {
		t.Errorf("an unknown service exits %d: %s", r.code, r.stderr)
	}
	if code := server.stop(); code != 0 {
		t.Errorf("the daemon ended with %d", code)
	}
}
