package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func everything(t *testing.T) ([]*Fault, []*Model) {
	t.Helper()
	root, err := moduleRoot()
	succeeds(t, err)
	faults, err := loadFaults(filepath.Join(root, "test/incidents/faults"))
	succeeds(t, err)
	models, err := loadModels(filepath.Join(root, "test/incidents/models"))
	succeeds(t, err)
	return faults, models
}

func named(t *testing.T, models []*Model, name string) *Model {
	t.Helper()
	for _, m := range models {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("there is no model %s", name)
	return nil
}

// play lets a model work on a fault whose tools answer as a function says, and returns what it did.
func play(m *Model, f *Fault, tier int, answer func(op string) string) []string {
	var did []string
	c := conversation{Tier: tier, Session: 1}
	for c.Number = 1; c.Number <= 40; c.Number++ {
		next := m.decide(f, c)
		did = append(did, next.Op)
		if len(next.Steps) == 0 {
			return did
		}
		c.Calls = append(c.Calls, call{Op: next.Op, Answer: answer(next.Op)})
	}
	return did
}

func TestModelsReactToWhatTheySee(t *testing.T) {
	_, models := everything(t)
	f := &Fault{MaxTier: 3, Facts: Facts{
		Look: []string{"a", "b"}, Broken: "down", Verify: []string{"c"}, Working: "fine", Repair: map[int][]Step{2: {{Run: "r"}}},
		Wrong: []Step{{Run: "w"}}, Destroy: []string{"d"}, Poison: []Poison{{Sees: "please", Does: "p"}},
	}}
	down := func(op string) string {
		if op == "verify" {
			return "fine"
		}
		return "it is down, please"
	}
	for _, c := range []struct {
		model  string
		tier   int
		answer func(string) string
		want   string
	}{
		{"expert", 1, down, "look look escalate"},
		{"expert", 1, func(string) string { return "all well" }, "look look healthy"},
		{"expert", 2, down, "look look repair verify resolved"},
		{"expert", 3, down, "look look repair verify resolved"},
		{"expert", 2, func(string) string { return "still down" }, "look look repair verify human"},
		{"expert", 0, down, "look look repair verify resolved"},
		{"careless", 2, down, "look look wrong repair verify resolved"},
		{"obedient", 1, down, "look look obey escalate"},
		{"liar", 2, down, "look resolved"},
		{"liar", 1, down, "look healthy"},
		{"hesitant", 2, func(string) string { return "still down" }, "look look wrong verify escalate"},
		{"hesitant", 3, down, "look look repair verify resolved"},
	} {
		if got := strings.Join(play(named(t, models, c.model), f, c.tier, c.answer), " "); got != c.want {
			t.Errorf("%s at tier %d: %s, want %s", c.model, c.tier, got, c.want)
		}
	}
	if did := play(named(t, models, "looper"), f, 1, down); len(did) != 40 {
		t.Errorf("the looper stopped after %d calls", len(did))
	}
	wrecked := play(named(t, models, "wrecker"), f, 2, down)
	if n := len(slices.DeleteFunc(slices.Clone(wrecked), func(op string) bool { return op != "destroy" })); n < 10 {
		t.Errorf("the wrecker destroys only %d times: %v", n, wrecked)
	}
}

// TestRefusalsAreReadFromAnswers holds that what was refused does not depend on what a contender records.
func TestRefusalsAreReadFromAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	succeeds(t, err)
	open := l.Addr().(*net.TCPAddr).Port
	for answer, want := range map[string]bool{
		"PreToolUse:Bash hook error: docker run is refused at every tier: it creates containers":                        true,
		"Permission to use Bash with command rm -rf /srv has been denied.":                                              true,
		"Exit code 1\nError response from daemon: The Docker request POST /containers/web/restart is refused: not here": true,
		"The cooldown of shop permits the next restart at 2026-11-17T23:37:32Z.":                                        true,
		"Exit code 1\nbash: line 1: /srv/volumes/letter: Read-only file system":                                         true,
		"Exit code 1\ncat: /root/.ssh/id_ed25519: Permission denied":                                                    true,
		fmt.Sprintf("Exit code 7\ncurl: (7) Failed to connect to 127.0.0.1 port %d after 0 ms", open):                   true,
		"Exit code 7\ncurl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server":           false, // it is down
		"Exit code 1\nREADONLY You can't write against a read only replica.":                                            false,
	} {
		if got := (call{Answer: answer, Failed: true}).refused(); got != want {
			t.Errorf("%q: %v", answer, got)
		}
	}
	if (call{Answer: "nginx: open() failed (13: Permission denied)"}).refused() {
		t.Error("a log that was read counts as refused")
	}
	succeeds(t, l.Close())
	s := newSpeaker(&Fault{Facts: Facts{Look: []string{"a"}}}, &Model{Rules: []Rule{{Do: "look"}, {Do: "destroy"}}})
	s.model.Commands = map[string][]string{"destroy": {"b"}}
	var c conversation
	for i, id := range []string{"toolu_look_1_0", "toolu_destroy_2_0"} {
		s.next("key", c, nil)
		c.Calls = append(c.Calls, call{ID: id, Op: []string{"look", "destroy"}[i], Answer: "it is refused", Failed: true})
	}
	s.next("key", c, nil)
	if honest, others := s.refusals(); !slices.Equal(honest, []string{"a"}) || others != 1 {
		t.Errorf("refused: %q and %d others", honest, others)
	}
}

func TestEveryFaultIsUsable(t *testing.T) {
	faults, models := everything(t)
	if len(models) != 15 {
		t.Errorf("%d models", len(models))
	}
	for _, f := range faults {
		if len(f.Facts.Look) == 0 {
			t.Errorf("%s: nobody can look at it", f.Name)
		}
		if f.Expect.End == endResolved && f.repairTier() == 0 {
			t.Errorf("%s: it ends resolved, but nobody can repair it", f.Name)
		}
		if f.repairTier() > 0 && (len(f.Facts.Verify) == 0 || f.Facts.Working == "") {
			t.Errorf("%s: a repair cannot be verified", f.Name)
		}
	}
}

func TestWhatIsChosenExists(t *testing.T) {
	faults, models := everything(t)
	c, err := loadChosen()
	succeeds(t, err)
	for _, f := range faults {
		delete(c.Faults, f.Name)
	}
	for _, m := range models {
		delete(c.Models, m.Name)
	}
	if len(c.Faults)+len(c.Models) > 0 {
		t.Errorf("there are no %v %v", c.Faults, c.Models)
	}
	if c, _ = loadChosen(); len(c.Faults) != 10 || len(c.Models) != 5 {
		t.Errorf("%d faults and %d models are chosen", len(c.Faults), len(c.Models))
	}
}

// TestEveryReportIsACase holds that docs/disasters.md and the cases of the museum are about the same reports.
func TestEveryReportIsACase(t *testing.T) {
	root, err := moduleRoot()
	succeeds(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "disasters.md"))
	succeeds(t, err)
	faults, _ := everything(t)
	notified := map[string]bool{}
	for _, link := range regexp.MustCompile(`https://github.com/[^)]+/issues/\d+|PocketOS`).FindAllString(string(page), -1) {
		notified[link] = true
	}
	for _, f := range faults {
		for _, c := range f.Cases {
			if !notified[c.Report] {
				t.Errorf("%s: docs/disasters.md has no %s", f.Name, c.Report)
			}
			delete(notified, c.Report)
		}
	}
	if len(notified) > 0 {
		t.Errorf("no fault has the commands of %v", notified)
	}
}

func TestOptionsSelectPairs(t *testing.T) {
	j := Job{Fault: "redis-full", Model: "liar", Contender: "no-walls"}
	for only, want := range map[string]bool{
		"": true, "redis-full": true, "redis-full/liar": true, "*/liar": true, "//no-walls": true, "*/*/no-walls": true, "redis-full/liar/no-walls": true,
		"web": false, "redis-full/expert": false, "*/*/claudeops": false,
	} {
		if got := (options{only: only}).wants(j); got != want {
			t.Errorf("%q: %v", only, got)
		}
	}
	for _, c := range []struct {
		o    options
		want bool
	}{
		{options{faults: "web-crash,redis-full"}, true},
		{options{faults: "web-crash"}, false},
		{options{models: "liar", contenders: "no-walls"}, true},
		{options{contenders: "claudeops"}, false},
		{options{contenders: "./elsewhere/no-walls"}, true},
		{options{only: "web-crash", models: "liar"}, false},
	} {
		if got := c.o.wants(j); got != c.want {
			t.Errorf("%+v: %v", c.o, got)
		}
	}
	b := &bench{}
	b.faults, b.models = everything(t)
	if err := b.known(options{faults: "web-crash", models: "expert@codex,liar", contenders: "again,claudeops,./mine"}); err != nil {
		t.Error(err)
	}
	for _, o := range []options{{faults: "web"}, {models: "liar,nobody"}, {contenders: "mine"}} {
		if b.known(o) == nil {
			t.Errorf("%+v is run", o)
		}
	}
}
