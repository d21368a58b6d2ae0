package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

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
