package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/dockertest"
	"claudeops/test/loopback"
	"claudeops/test/needs"
)

// quickly is a configuration in which causes need not wait long.
const quickly = "grouping: {window: 1s, pause: 1s}\n"

// configured gives a box a configuration file.
func (b *box) configured(yaml string) *box {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "claudeops.yaml")
	must(b.t, os.WriteFile(path, []byte(yaml), 0o600))
	b.env = append(b.env, "CLAUDEOPS_CONFIG="+path)
	return b
}

// told posts an alert and returns the status.
func (d *daemon) told(source, body string, headers ...string) int {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://"+d.addr+"/api/v1/webhooks/"+source, strings.NewReader(body))
	must(d.t, err)
	r.Header.Set("Authorization", "Bearer "+d.token())
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	must(d.t, err)
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

// by returns the newest cycle that a trigger started, once it has ended.
func (b *box) by(trigger ops.Trigger) (ops.Claimed, bool) {
	b.t.Helper()
	c, ok := b.newest()
	return c, ok && c.Cycle.Trigger == trigger && c.Cycle.Status.Ended()
}

func TestWhatWasAcceptedSurvivesAKill(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01))).configured(quickly)
	d := b.ready()
	token := d.token()
	var group sync.WaitGroup
	var mu sync.Mutex
	accepted := map[string]bool{}
	killed := make(chan struct{})
	for w := range 8 {
		group.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("a-%d-%d", w, i)
				resp, err := d.send(http.MethodPost, "/api/v1/webhooks/generic", token, strings.NewReader(fmt.Sprintf(`{"name":%q,"service":"s","severity":"info"}`, name)))
				if err != nil {
					return
				}
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusAccepted {
					mu.Lock()
					accepted[name] = true
					if len(accepted) == 300 {
						close(killed)
					}
					mu.Unlock()
				}
			}
		})
	}
	<-killed
	must(t, d.cmd.Process.Signal(syscall.SIGKILL))
	group.Wait()
	<-d.done
	d.done <- nil
	stored := map[string]bool{}
	b.read(func(s *store.Store) {
		for before := int64(0); ; {
			page, err := s.Watch.Alerts(t.Context(), store.AlertFilter{Limit: 200, Before: before})
			must(t, err)
			if len(page) == 0 {
				return
			}
			for _, a := range page {
				stored[a.Name] = true
				before = a.ID
			}
		}
	})
	for name := range accepted {
		if !stored[name] {
			t.Errorf("%s was accepted and is lost", name)
		}
	}
}

func TestARealAlertmanagerTellsAndIsUnderstood(t *testing.T) {
	t.Parallel()
	manager, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		needs.End(t, needs.Absent("prometheus-alertmanager"))
	}
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_API_TOKEN=token-of-the-alertmanager").configured(quickly)
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })

	dir := t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `route: {receiver: claudeops, group_wait: 1s, group_interval: 1s, repeat_interval: 1h}
receivers:
  - name: claudeops
    webhook_configs:
      - url: http://%s/api/v1/webhooks/alertmanager
        send_resolved: true
        http_config: {authorization: {type: Bearer, credentials: token-of-the-alertmanager}}
`, d.addr), 0o600); err != nil {
		t.Fatal(err)
	}
	address := loopback.FreeAddress(t)
	var log loopback.Output
	c := exec.CommandContext(t.Context(), manager, "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--cluster.listen-address=")
	c.Stdout, c.Stderr = &log, &log
	must(t, c.Start())
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()

	tell := func(end string) bool {
		body := fmt.Sprintf(`[{"labels":{"alertname":"InstanceDown","service":"web","severity":"critical","tier":"3"},
			"annotations":{"summary":"web does not answer"}%s}]`, end)
		resp, err := http.Post("http://"+address+"/api/v2/alerts", "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	d.until("alertmanager takes an alert", func() bool { return tell("") })
	d.until("the alert's cycle ends", func() bool { _, ok := b.by(ops.TriggerAlert); return ok })
	if !tell(fmt.Sprintf(`,"endsAt":%q`, time.Now().Add(-time.Second).UTC().Format(time.RFC3339))) {
		t.Fatalf("alertmanager does not take the end\n%s", log.String())
	}
	d.until("people hear that it is over", func() bool {
		for _, n := range b.notices() {
			if n.Kind == "resolved" && n.Service == "web" {
				return true
			}
		}
		return false
	})
	b.read(func(s *store.Store) {
		alerts, err := s.Watch.Alerts(t.Context(), store.AlertFilter{})
		must(t, err)
		if len(alerts) != 1 || alerts[0].Status != ops.AlertResolved || alerts[0].Summary != "web does not answer" || alerts[0].Level != ops.LevelCritical {
			t.Errorf("alerts are %+v", alerts)
		}
	})
}

func TestAPersonIsAskedWhy(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	p := atTerminal(t, t.TempDir(), b.env, "silences", "add", "web", "--for", "1h")
	p.sees("Why?")
	p.types("a new disk\n")
	if code := p.ends(); code != 0 {
		t.Fatalf("exit %d\n%s", code, p.whole())
	}
	contains(t, "the list", b.run("silences", "list").stdout, "web", "a new disk")
}

func TestSilencesFromTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01))).configured(quickly)
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"add", "--service", "web*", "--for", "1h", "--reason", "disk"}, 0},
		{[]string{"add", "--service", "web", "--for", "1h"}, 0}, // a script need not say why
		{[]string{"add", "--for", "1h", "--reason", "all"}, 2},
		{[]string{"add", "--service", "web", "--reason", "no end"}, 2},
		{[]string{"add", "--label", "team", "--for", "1h", "--reason", "x"}, 2},
		{[]string{"add", "--service", "x", "--environment", "mars", "--for", "1h", "--reason", "x"}, 2},
		{[]string{"rm", "99"}, 4},
	} {
		if r := b.run(append([]string{"silences"}, tt.args...)...); r.code != tt.code {
			t.Errorf("%v exits %d: %s", tt.args, r.code, r.stderr)
		}
	}
	contains(t, "the list", b.run("silences", "list").stdout, "service=web*", "disk")
	if code := d.told("generic", `{"name":"Down","service":"web-1","severity":"critical"}`); code != http.StatusAccepted {
		t.Fatalf("answered %d", code)
	}
	d.until("it is held back", func() bool {
		held := false
		b.read(func(s *store.Store) {
			found, err := s.Watch.Withheld(context.Background(), "default")
			held = err == nil && len(found) == 1 && found[0].Why == "silenced"
		})
		return held
	})
	if r := b.run("silences", "rm", "1"); r.code != 0 {
		t.Fatalf("rm exits %d: %s", r.code, r.stderr)
	}
	d.until("the alert's cycle ends", func() bool { _, ok := b.by(ops.TriggerAlert); return ok })
	if r := b.run("silences", "rm", "1"); r.code != 5 {
		t.Errorf("a second rm exits %d", r.code)
	}
}

// theAlert is the only alert on record.
func (b *box) theAlert() (a ops.Alert) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		all, err := s.Watch.Alerts(b.t.Context(), store.AlertFilter{})
		if err != nil || len(all) > 1 {
			b.t.Fatalf("%+v %v", all, err)
		}
		if len(all) == 1 {
			a = all[0]
		}
	})
	return a
}

// Gatus runs with the file that the documentation shows.
func TestARealGatusTellsAndIsUnderstood(t *testing.T) {
	t.Parallel()
	gatus, err := filepath.Abs("../../.cache/gatus-5.35.0/gatus")
	must(t, err)
	if _, err := os.Stat(gatus); err != nil {
		t.Fatalf("Gatus is not there (%v): run script/setup-tests all", err)
	}
	page, err := os.ReadFile("../../docs/webhooks.md")
	must(t, err)
	_, alerting, _ := strings.Cut(string(page), "```yaml not-run=\"a file of Gatus\"\n")
	alerting, _, found := strings.Cut(alerting, "```")
	if !found {
		t.Fatal("the documentation shows no file of Gatus")
	}
	var down atomic.Bool
	down.Store(true)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer service.Close()
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_API_TOKEN=token-of-the-real-gatus").configured(quickly)
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })

	dir := t.TempDir()
	host, port, _ := strings.Cut(loopback.FreeAddress(t), ":")
	file := strings.ReplaceAll(alerting, "https://ops.example.org", "http://"+d.addr) + fmt.Sprintf(`web: {address: %s, port: %s}
endpoints:
  - name: front-end
    group: core
    url: %s
    interval: 1s
    conditions: ["[STATUS] == 200"]
    alerts: [{type: custom, failure-threshold: 1, success-threshold: 1, description: "it does not answer"}]
`, host, port, service.URL)
	must(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(file), 0o600))
	var log loopback.Output
	c := exec.CommandContext(t.Context(), gatus)
	c.Dir, c.Stdout, c.Stderr = dir, &log, &log
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GATUS_CONFIG_PATH=" + filepath.Join(dir, "config.yaml"), "CLAUDEOPS_TOKEN=token-of-the-real-gatus"}
	must(t, c.Start())
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	defer func() {
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	d.until("the alert's cycle ends", func() bool { _, ok := b.by(ops.TriggerAlert); return ok })
	if a := b.theAlert(); a.Status != ops.AlertFiring || a.Service != "front-end" || a.Level != ops.LevelCritical || a.Summary != "it does not answer" {
		t.Errorf("%+v", a)
	}
	down.Store(false)
	d.until("the alert ends", func() bool { return b.theAlert().Status == ops.AlertResolved })
}

// job is what `services heartbeat` makes for a cron job.
type job struct{ URL, Curl string }

func (b *box) job(service string) (made job) {
	b.t.Helper()
	r := b.run("services", "heartbeat", service, "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &made); r.code != 0 || err != nil {
		b.t.Fatalf("%d: %v %s", r.code, err, r.stderr)
	}
	return made
}

// calls calls the address of a heartbeat as a cron job does, and returns the status.
func (j job) calls(t *testing.T, end, output string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, j.URL+end, strings.NewReader(output))
	must(t, err)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

func TestACronJobCallsFailsAndIsMissed(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01))).configured(quickly + `services:
  - name: backup
    probes: [{type: heartbeat, schedule: "0 2 * * *", zone: Europe/Berlin}]
  - name: mirror
    probes: [{type: heartbeat, every: 1s, grace: 1s}]
  - name: report
    probes: [{type: heartbeat, every: 1s, grace: 24h}]
`)
	d := b.ready()
	shows := func(service string, texts ...string) func() bool {
		return func() bool {
			said := b.run("services", "show", service).stdout
			for _, text := range texts {
				if !strings.Contains(said, text) {
					return false
				}
			}
			return true
		}
	}
	backup := b.job("backup")
	contains(t, "the command", backup.Curl, "curl -fsS", backup.URL)
	if code := backup.calls(t, "", ""); code != http.StatusOK {
		t.Fatalf("the job is answered %d", code)
	}
	d.until("the call is shown", shows("backup", "backup: healthy", "last call at"))
	d.until("a job that never calls is missed", shows("mirror", "mirror: down", "missed: expected at"))
	d.until("a late one is degraded", shows("report", "report: degraded", "late: expected at"))

	if code := backup.calls(t, "/3", "login with password=correct-horse-battery-staple\ndisk full"); code != http.StatusOK {
		t.Fatalf("the job is answered %d", code)
	}
	d.until("its failure is shown", shows("backup", "backup: down", "exit status 3: disk full", "failed with exit code 3", "| disk full"))
	if said := b.run("services", "show", "backup").stdout; strings.Contains(said, "correct-horse") {
		t.Errorf("a secret is shown: %s", said)
	}
	failed := func(c ops.Claimed) bool {
		for _, k := range c.Journal.Checks {
			if k.Service == "backup" && k.Status == ops.Down && k.Error == "exit status 3: disk full" {
				return c.Cycle.Trigger == ops.TriggerProbe
			}
		}
		return false
	}
	d.until("a cycle knows it", func() bool { c, ok := b.newest(); return ok && failed(c) })
	for _, n := range b.notices() {
		if n.Service == "report" {
			t.Errorf("people hear of a job that is only late: %+v", n)
		}
	}

	renewed := b.job("backup")
	if code := backup.calls(t, "", ""); code != http.StatusNotFound {
		t.Errorf("the former address is answered %d", code)
	}
	if code := renewed.calls(t, "/start", ""); code != http.StatusOK {
		t.Errorf("its start is answered %d", code)
	}
	renewed.calls(t, "/0", "done")
	d.until("it is healthy again", shows("backup", "backup: healthy", "last call at", "| done"))
	contains(t, "the records", b.audits(), "made a new address for the heartbeat of backup")
	if code := d.stop(); code != 0 {
		t.Errorf("the daemon ended with %d", code)
	}
}

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
		resources, err := s.Watch.Resources(context.Background(), "default", host)
		seen = err == nil && slices.ContainsFunc(resources, func(t ops.Resource) bool { return t.Kind == kind && t.Subject == subject })
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

// An engine that never answered is a row of the set-up. One that stops is one incident, whatever runs in it, and its services are unknown
// until it answers again. The test runs alone: it stops the engine of the others.
func TestAnEngineThatStopsIsOneIncident(t *testing.T) {
	d := dockertest.Shared(t)
	for _, name := range []string{"engine-web", "engine-mail"} {
		d.Container(t, name, "--restart", "always")
	}
	socket := filepath.Join(d.Dir, "engine.sock")
	t.Cleanup(func() { _ = os.Remove(socket) })
	help := strings.NewReplacer(`"healthy"`, `"needs_human"`, `"service":"web","check_type":"http"`, `"service":"container-engine","check_type":"container"`,
		`"status":"healthy"`, `"status":"down"`).Replace(healthyOutcome)
	b := newBox(t, plays(agenttest.Answers(0.01, help))).configured(fmt.Sprintf("%sobserve: probes\ndocker: {socket: %q, broker: off}\nservices:\n"+
		"  - {name: web, probes: [{type: container, container: engine-web, interval: 1s}]}\n"+
		"  - {name: mail, probes: [{type: container, container: engine-mail, interval: 1s}]}\n", quickly, socket))
	server := b.ready()
	states := func(want string) func() bool {
		return func() bool {
			var found []struct{ Name, State string }
			r := b.run("services", "list", "-o", "json")
			if err := json.Unmarshal([]byte(r.stdout), &found); err != nil {
				t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
			}
			text := ""
			for _, x := range found {
				text += x.Name + " " + x.State + ", "
			}
			for _, part := range strings.Split(want, ", ") {
				if !strings.Contains(text, part+", ") {
					return false
				}
			}
			return len(found) == 3
		}
	}
	incidents := func() (all []ops.Incident) {
		b.read(func(s *store.Store) {
			var err error
			all, err = s.People.Incidents(context.Background(), store.IncidentFilter{})
			must(t, err)
		})
		return all
	}

	server.until("nothing is known before the engine has answered", states("web unknown, mail unknown, container-engine unknown"))
	server.until("the set-up says so", func() bool {
		return strings.Contains(b.run("doctor").stdout, "has never answered, so nothing is known of web, mail")
	})
	if all := incidents(); len(all) > 0 {
		t.Errorf("an engine that was never there is an incident: %+v", all)
	}
	must(t, os.Symlink(d.Socket, socket))
	server.until("all is well", states("web healthy, mail healthy, container-engine healthy"))

	start := d.Stop(t)
	server.until("a person is called for the engine", func() bool { all := incidents(); return len(all) == 1 && all[0].CalledAt != nil })
	server.until("its services are unknown", states("web unknown, mail unknown, container-engine down"))
	start()
	server.until("it answers", states("web healthy, mail healthy, container-engine healthy"))
	server.until("its incident is over", func() bool { return incidents()[0].ResolvedAt != nil })
	if all := incidents(); len(all) != 1 || all[0].Service != ops.EngineService || all[0].ResolvedBy != ops.Supervisor {
		t.Errorf("incidents are %+v", all)
	}
	b.read(func(s *store.Store) {
		causes, err := s.Watch.Causes(context.Background(), "default", time.Time{})
		if err != nil || len(causes) != 1 || !slices.Equal(causes[0].Services, []string{ops.EngineService}) {
			t.Errorf("causes are %+v, %v", causes, err)
		}
	})
	if code := server.stop(); code != 0 {
		t.Errorf("the daemon ended with %d", code)
	}
}
