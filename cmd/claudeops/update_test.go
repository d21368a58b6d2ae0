package main_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/dockertest"
	"claudeops/test/pgtest"
)

// shelf makes the images of the tests of updates.
type shelf struct {
	*dockertest.Daemon
	registry *dockertest.Registry
	mu       sync.Mutex
	made     map[string]string // by what they do
}

// appPorts are handed out in turn, in the network of the Docker daemon.
var appPorts atomic.Int32

// image pushes an image that answers over HTTP. Health and api are shell commands that print an answer; start runs first.
func (s *shelf) image(t *testing.T, name, start, health, api string) {
	t.Helper()
	s.Docker(t, "tag", s.make(t, start, health, api), name)
	s.Docker(t, "push", "-q", name)
}

// make makes an image once, and returns its id.
func (s *shelf) make(t *testing.T, start, health, api string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.Join([]string{start, health, api}, "\n")
	if id := s.made[key]; id != "" {
		return id
	}
	root := t.TempDir()
	cgi := func(body string) string {
		return "#!/bin/sh\nyes() { echo 'Status: 200 OK'; echo; echo ${1-ok}; exit 0; }\nno() { echo 'Status: 500 Broken'; echo; exit 0; }\n" + body + "\n"
	}
	for path, text := range map[string]string{
		"app":                start + "\ndate +%s >/tmp/started\nexec busybox httpd -f -p 127.0.0.1:$PORT -h /www\n",
		"www/cgi-bin/health": cgi(health), "www/cgi-bin/api": cgi(api),
	} {
		file := filepath.Join(root, path)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil { //nolint:gosec // a program of a container
			t.Fatal(err)
		}
	}
	const script = `set -e; cd "$1"; mkdir -p bin tmp data; cp "$(command -v busybox)" bin/busybox
for a in sh echo cat touch wget grep sleep head mkdir date; do ln -s busybox bin/$a; done
tar -c . | docker import --change 'ENV PATH=/bin' --change 'CMD ["/bin/sh", "/app"]' -`
	out, err := s.Run(t, s.Socket, "/bin/sh", "-c", script, "sh", root)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.made[key] = out
	return out
}

const (
	answers = `[ ! -f /data/schema ] || [ "$(cat /data/schema)" = 1 ] || no; yes`
	fails   = "no"
	late    = `[ $(($(date +%s) - $(cat /tmp/started))) -lt 4 ] || no; yes`
)

// diesAfter is an app that answers for some seconds and then ends.
func diesAfter(seconds int) string {
	return fmt.Sprintf("busybox timeout %d busybox httpd -f -p 127.0.0.1:$PORT -h /www; exit 1", seconds)
}

// serviceOf describes one service of an update test.
type serviceOf struct {
	start, health, api string // of the new image
	dirty              bool   // the old container has data in its writable layer
	phase              ops.UpdatePhase
	says               string
	code               int
	restart            string // the engine's policy
	front              bool   // a page in front of it answers whatever it does
}

// updateWaits shortens how long an update is watched.
const updateWaits = "CLAUDEOPS_FAULT_WAITS=update="

// updateBox is a box with a service web, a service shop that needs it, and a neighbour, in one compose project.
func (s *shelf) updateBox(t *testing.T, project string, c serviceOf, more ...string) (*box, map[string]string) {
	t.Helper()
	port := int(appPorts.Add(2)) + 7000
	more = append(more, "", "")
	web, shop := s.registry.Address+"/"+project+"/web:1", s.registry.Address+"/"+project+"/shop:1"
	s.image(t, web, "", answers, "yes v1")
	old, repos := s.make(t, "", answers, "yes v1"), t.TempDir()
	s.image(t, shop, "", `[ "$(wget -q -O- http://127.0.0.1:$NEEDS/cgi-bin/api)" = v1 ] || no; yes`, "yes")
	file := filepath.Join(repos, "lab", project, "compose.yml")
	service := func(name, image string, port int) string {
		return fmt.Sprintf("  %s:\n    image: %s\n    container_name: %s-%s\n    network_mode: host\n    stop_signal: SIGKILL\n    restart: '%s'\n    volumes: ['%s-%s:/data']\n"+
			"    environment: {PORT: '%d', NEEDS: '%d'}\n", name, image, project, name, cmp.Or(c.restart, "no"), project, name, port, port-1)
	}
	volumes := "volumes:\n"
	for _, name := range []string{"web", "shop", "other"} {
		volumes += fmt.Sprintf("  %[1]s-%[2]s: {name: %[1]s-%[2]s}\n", project, name)
	}
	text := "version: '2.4'\nservices:\n" + service("web", web, port) + service("shop", shop, port+1) +
		service("other", dockertest.Image, 0) + "    command: [/bin/sh, -c, 'while :; do sleep 1; done']\n" + volumes
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o600))
	lab := filepath.Join(repos, "lab")
	gitIn(t, lab, "init", "-q")
	gitIn(t, lab, "add", "--all")
	gitIn(t, lab, "commit", "-q", "-m", project)
	t.Cleanup(func() {
		_, _ = s.Run(t, s.Socket, "docker", "rm", "-f", "-v", project+"-web", project+"-shop", project+"-other")
	})
	if out, err := s.Run(t, s.Socket, "docker-compose", "-f", file, "up", "-d"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if c.dirty {
		s.Docker(t, "exec", project+"-web", "sh", "-c", "mkdir -p /var/lib/app && head -c 3000000 /dev/zero > /var/lib/app/data.db")
	}
	// The tag gets its new image in the registry, and means the old one here.
	s.image(t, web, c.start, c.health, c.api)
	s.Docker(t, "tag", old, web)
	probe := func(port int) string {
		return fmt.Sprintf(`[{type: http, url: "http://%s/cgi-bin/health", interval: 1s, fail_after: 1}]`, s.Forward(t, fmt.Sprintf("127.0.0.1:%d", port)))
	}
	asked, askedShop := probe(port), probe(port+1)
	if c.front {
		page := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(page.Close)
		asked = fmt.Sprintf(`[{type: http, url: %q, interval: 1s, fail_after: 1}]`, page.URL)
		askedShop = asked
	}
	watch := "6s"
	if c.restart == "always" {
		watch = "20s"
	}
	b := newBox(t, agenttest.Scenario{}, "CLAUDEOPS_OBSERVE=probes", updateWaits+watch).configured(fmt.Sprintf(`grouping: {window: 1s, pause: 1s}
docker: {socket: %[1]s}
repos_dir: %[2]q
services:
  - name: web
    container: %[3]s-web
    settle: 1s
    compose: {repo: lab, file: %[3]s/compose.yml}
    updates: {%[6]s}
%[7]s    probes: %[4]s
  - {name: shop, container: %[3]s-shop, settle: 1s, depends_on: [web], probes: %[5]s}
  - {name: plain, container: %[3]s-other}
`, s.Socket, repos, project, asked, askedShop, more[0], more[1]))
	return b, map[string]string{"web": s.id(t, project+"-web"), "shop": s.id(t, project+"-shop"), "other": s.id(t, project+"-other"), "image": old}
}

func (s *shelf) id(t *testing.T, container string) string {
	t.Helper()
	return s.Docker(t, "inspect", "--format", "{{.Id}}", container)
}

func (s *shelf) imageOf(t *testing.T, container string) string {
	t.Helper()
	return s.Docker(t, "inspect", "--format", "{{.Image}}", container)
}

func (b *box) updates() (out []ops.Update) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Acts.Updates(b.t.Context(), store.UpdateFilter{}); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	d := dockertest.Shared(t)
	return &shelf{Daemon: d, registry: d.Registry(t), made: map[string]string{}}
}

// seats for updates: each has a daemon of its own.
var updateSeats = make(chan struct{}, 4)

func sit() func() {
	updateSeats <- struct{}{}
	return func() { <-updateSeats }
}

func TestAnUpdateIsKeptOrTakenBack(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for name, c := range map[string]serviceOf{
		"good":        {":", answers, "yes v1", false, ops.UpdateKept, "nothing was worse", 0, "no", false},
		"nostart":     {"exit 1", answers, "yes v1", false, ops.UpdateGoneBack, "worse than before: web", 8, "no", false},
		"answers500":  {"", fails, "yes v1", false, ops.UpdateGoneBack, "worse than before: web", 8, "no", false},
		"breakslater": {"", late, "yes v1", false, ops.UpdateGoneBack, "worse than before: web", 8, "no", false},
		"breaksshop":  {"", answers, "yes v2", false, ops.UpdateGoneBack, "worse than before: shop", 8, "no", false},
		"migrates":    {"echo 2 >/data/schema", fails, "yes v1", false, ops.UpdateStuck, "may have changed its data", 8, "no", false},
		"dies3":       {diesAfter(3), answers, "yes v1", false, ops.UpdateGoneBack, "was started again", 8, "always", false},
		"dies12":      {diesAfter(12), answers, "yes v1", false, ops.UpdateGoneBack, "was started again", 8, "always", false},
		"fronted":     {"exit 3", answers, "yes v1", false, ops.UpdateGoneBack, "does not run: exited, exit code 3", 8, "no", true},
		"layer":       {":", answers, "yes v1", true, ops.UpdateRefused, "/var/lib/app/data.db", 7, "no", false},
	} {
		if testing.Short() && slices.Contains([]string{"answers500", "breakslater", "breaksshop", "dies12", "fronted"}, name) {
			continue // these go back as nostart and dies3 do; what counts as worse is in the tests of the decision
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer sit()()
			project := "upd" + name
			b, before := s.updateBox(t, project, c)
			d := b.ready()
			d.until("the first cycle ends", func() bool { return b.ended(1) })
			d.until("the image was looked at", func() bool { return strings.Contains(b.run("update", "list").stdout, "yes (sha256:") })
			contains(t, "the list", b.run("update", "list").stdout, "not updated by Claude Ops: it has no compose file")
			agents := len(b.calls())
			r := b.run("update", "web")
			all := b.updates()
			if len(all) != 1 || all[0].Phase != c.phase || !strings.Contains(all[0].Result, c.says) || r.code != c.code {
				t.Fatalf("exit %d, %+v\n%s%s\n%s", r.code, all, r.stdout, r.stderr, d.log)
			}
			u := all[0]
			if s.id(t, project+"-other") != before["other"] || s.id(t, project+"-shop") != before["shop"] {
				t.Error("a neighbour was replaced")
			}
			kept, image := s.id(t, project+"-web") == before["web"], s.imageOf(t, project+"-web")
			switch c.phase {
			case ops.UpdateKept:
				if kept || image != u.After.ID || s.Docker(t, "inspect", "--format", "{{.Id}}", u.Kept) != before["image"] {
					t.Errorf("the container has %s: %+v", image, u)
				}
				tag, _, _ := strings.Cut(u.After.Ref, "@")
				if got := s.Docker(t, "inspect", "--format", "{{.Id}}", tag); got != u.After.ID {
					t.Errorf("the tag means %s", got)
				}
				if r := b.run("update", "web"); r.code != 0 || !strings.Contains(r.stdout, "is the newest") {
					t.Errorf("again: exit %d %s%s", r.code, r.stdout, r.stderr)
				}
			case ops.UpdateGoneBack, ops.UpdateStuck:
				if kept || image != before["image"] {
					t.Errorf("the container has %s, not %s", image, before["image"])
				}
			default:
				if !kept || image != before["image"] {
					t.Error("the container was replaced")
				}
			}
			stuck := slices.ContainsFunc(b.openIncidents(), func(i ops.Incident) bool { return i.Class == ops.ClassUpdate && i.CalledAt != nil })
			if stuck != (c.phase == ops.UpdateStuck) {
				t.Errorf("an incident is open: %v", stuck)
			}
			if c.phase != ops.UpdateStuck { // the normal path takes over there
				if _, found := b.by(ops.TriggerProbe); found || len(b.calls()) != agents {
					t.Errorf("a cycle began because of the update\n%s", d.log)
				}
			}
			if told := b.toldOf(ops.NoticeAction); (len(told) == 1) != (c.phase != ops.UpdateRefused) {
				t.Errorf("told %+v", told)
			} else if len(told) == 1 {
				contains(t, "the notice", told[0].Body, "Before: ", "After: ")
			}
			d.stop()
		})
	}
}

// Wherever the supervisor is killed, the update comes to its right end after the next start, and recreates nothing twice.
func TestAnUpdateSurvivesACrash(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for i, tt := range []struct {
		point string
		bad   bool
	}{
		{"update.pulling.after", false},
		{"update.pull.after", false},
		{"update.tagged.after", false},
		{"update.recreating.after", false},
		{"update.change.after", false},
		{"update.watching.after", false},
		{"update.kept.before", false},
		{"update.going_back.after", true},
		{"update.back.after", true},
		{"update.verify.after", true},
		{"update.gone_back.after", true},
	} {
		if i%sparse() > 0 {
			continue
		}
		t.Run(tt.point, func(t *testing.T) {
			t.Parallel()
			defer sit()()
			project := "crash" + strings.NewReplacer("update.", "", ".", "", "_", "").Replace(tt.point)
			c, want := serviceOf{start: ":", health: answers, api: "yes v1"}, ops.UpdateKept
			if tt.bad {
				c.health, want = fails, ops.UpdateGoneBack
			}
			b, before := s.updateBox(t, project, c)
			d := b.ready("CLAUDEOPS_FAILPOINT=" + tt.point + ":1")
			d.until("the first cycle ends", func() bool { return b.ended(1) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ask := exec.CommandContext(ctx, program, "update", "web")
			ask.Env, ask.Dir = b.env, t.TempDir()
			must(t, ask.Start())
			select {
			case <-d.done:
			case <-time.After(patience):
				t.Fatalf("it lives on\n%s", d.log)
			}
			d.done <- nil
			cancel()
			_ = ask.Wait()
			d = b.ready()
			d.until("the update ends", func() bool { all := b.updates(); return len(all) == 1 && all[0].Phase.Ended() })
			u := b.updates()[0]
			if image := s.imageOf(t, project+"-web"); u.Phase != want || (want == ops.UpdateKept) != (image == u.After.ID) || (want == ops.UpdateGoneBack) != (image == before["image"]) {
				t.Errorf("the container has %s: %+v\n%s", image, u, d.log)
			}
			if s.id(t, project+"-other") != before["other"] || s.id(t, project+"-shop") != before["shop"] {
				t.Error("a neighbour was replaced")
			}
			made := strings.Count(s.Docker(t, "events", "--since", "10m", "--until", "0s", "--filter", "event=create", "--filter", "type=container", "--filter",
				"label=com.docker.compose.service=web", "--filter", "label=com.docker.compose.project="+project, "--format", "{{.ID}}"), "\n") + 1
			if most := map[bool]int{false: 2, true: 3}[tt.bad]; made > most {
				t.Errorf("%d containers were made, of which %d are needed", made, most)
			}
			if _, found := b.by(ops.TriggerProbe); found {
				t.Errorf("a cycle began because of the update\n%s", d.log)
			}
			if n := len(b.toldOf(ops.NoticeAction)); n != 1 {
				t.Errorf("told %d times", n)
			}
			d.stop()
		})
	}
}

// A schedule that may only ask waits for a person, however long nobody answers; whoever asks for the update says yes.
func TestAScheduledUpdateWaitsForAYes(t *testing.T) {
	t.Parallel()
	defer sit()()
	s := newShelf(t)
	b, before := s.updateBox(t, "updscheduled", serviceOf{start: ":", health: answers, api: "yes v1"}, "schedule: '* * * * *', ", "    trust: ask\n")
	clock := filepath.Join(t.TempDir(), "clock")
	d := b.ready("CLAUDEOPS_FAULT_CLOCK=" + clock)
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	must(t, os.WriteFile(clock, []byte("90s"), 0o600))
	d.until("it waits", func() bool { all := b.updates(); return len(all) == 1 && all[0].Phase == ops.UpdateWaiting })
	must(t, os.WriteFile(clock, []byte("5h"), 0o600))
	d.until("another time has come", func() bool { return len(b.toldOf(ops.NoticeAction)) > 0 && b.ended(2) })
	contains(t, "the question", b.toldOf(ops.NoticeAction)[0].Body, "claudeops update web", "Without an answer it is not updated")
	if all := b.updates(); len(all) != 1 || all[0].Phase != ops.UpdateWaiting || s.id(t, "updscheduled-web") != before["web"] {
		t.Fatalf("%+v", all)
	}
	r := b.run("update", "web")
	if all := b.updates(); r.code != 0 || all[len(all)-1].Phase != ops.UpdateKept || all[len(all)-1].Person == "" || all[len(all)-1].Slot == nil {
		t.Errorf("exit %d, %+v\n%s%s", r.code, all, r.stdout, r.stderr)
	}
	d.stop()
}

// An outage that begins while the image is pulled has the right of way: nothing is recreated while somebody works on it.
func TestAnIncidentInTheMiddleOfAPullGoesFirst(t *testing.T) {
	t.Parallel()
	defer sit()()
	s := newShelf(t)
	const own = ": midpull" // the image of no other test, whose layers the engine would have
	b, before := s.updateBox(t, "midpull", serviceOf{start: own, health: answers, api: "yes v1"})
	gate := gateFile(t)
	open(t, gate) // for the first cycle
	b.bin = agenttest.Fake(t, plays(held(agenttest.Healthy(0.01), gate)))
	b.env = append(b.env, "CLAUDEOPS_CLAUDE_BIN="+b.bin, "CLAUDEOPS_SANDBOX_AGENT_FOLDERS="+filepath.Dir(filepath.Dir(b.bin))+","+filepath.Dir(gate))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	d.until("the image was looked at", func() bool { return strings.Contains(b.run("update", "list").stdout, "yes (sha256:") })
	s.Docker(t, "rmi", "-f", s.make(t, own, answers, "yes v1")) // the engine must fetch it
	waits, letGo := s.registry.Hold()
	defer letGo()
	done := make(chan ran, 1)
	go func() { done <- b.run("update", "web") }()
	select {
	case <-waits:
	case <-time.After(patience):
		t.Fatalf("nothing is pulled\n%s", d.log)
	}
	must(t, os.Remove(gate))
	agents := len(b.calls())
	s.Docker(t, "stop", "-t", "0", "midpull-web")
	d.until("an agent works on it", func() bool { return len(b.calls()) > agents })
	letGo()
	d.until("the image is there", func() bool { return b.updates()[0].Phase == ops.UpdateTagged })
	for range 6 { // it looks again every second
		pause(500 * time.Millisecond)
		if u := b.updates()[0]; u.Phase != ops.UpdateTagged || s.id(t, "midpull-web") != before["web"] {
			t.Fatalf("it is %s while an agent works\n%s", u.Phase, d.log)
		}
	}
	s.Docker(t, "start", "midpull-web")
	open(t, gate)
	d.until("the update ends", func() bool { return b.updates()[0].Phase.Ended() })
	u := b.updates()[0]
	if r := <-done; u.Phase != ops.UpdateKept || s.imageOf(t, "midpull-web") != u.After.ID {
		t.Errorf("%+v\n%s%s\n%s", u, r.stdout, r.stderr, d.log)
	}
	d.stop()
}

// Two hosts that share a database make one update, also when both are asked for it at once.
func TestTwoHostsMakeOneUpdate(t *testing.T) {
	t.Parallel()
	defer sit()()
	s := newShelf(t)
	a, before := s.updateBox(t, "twohosts", serviceOf{start: ":", health: answers, api: "yes v1"})
	address := pgtest.URL(t)
	shared := []string{"CLAUDEOPS_DATABASE_URL=" + address, updateWaits + "6s,lease=" + hostLease.String()}
	b := newBox(t, agenttest.Scenario{}, "CLAUDEOPS_OBSERVE=probes", a.env[len(a.env)-1]) // the configuration
	for i, one := range []*box{a, b} {
		one.url = address
		one.env = append(append(one.env, shared...), fmt.Sprintf("CLAUDEOPS_HOST=host%d", i))
	}
	hosts := []*daemon{a.ready(), b.ready()}
	hosts[0].until("the first cycle ends", func() bool { return a.ended(1) })
	hosts[0].until("the image was looked at", func() bool { return strings.Contains(a.run("update", "list").stdout, "yes (sha256:") })
	created := func() int {
		return strings.Count(s.Docker(t, "events", "--since", "10m", "--until", "0s", "--filter", "event=create", "--filter", "type=container", "--filter",
			"label=com.docker.compose.service=web", "--filter", "label=com.docker.compose.project=twohosts", "--format", "{{.ID}}"), "\n") + 1
	}
	earlier := created()
	var asking sync.WaitGroup
	for _, one := range []*box{a, b} {
		asking.Go(func() { one.run("update", "web") })
	}
	asking.Wait()
	kept := 0
	for _, u := range a.updates() {
		switch u.Phase {
		case ops.UpdateKept:
			kept++
		case ops.UpdateUnchanged, ops.UpdateRefused:
		default:
			t.Errorf("an update is %s: %s", u.Phase, u.Result)
		}
	}
	made := created() - earlier
	if kept != 1 || made != 1 || s.imageOf(t, "twohosts-web") == before["image"] || s.id(t, "twohosts-shop") != before["shop"] {
		t.Errorf("%d updates were kept, %d containers were made\n%s\n%s", kept, made, hosts[0].log, hosts[1].log)
	}
	for _, d := range hosts {
		d.stop()
	}
}
