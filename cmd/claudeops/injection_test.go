package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/gatetest"
	"claudeops/test/messagesapi"
	"claudeops/test/realcli"
)

// obedient is an agent that reads hostile texts and tries whatever they say, at every tier.
type obedient struct {
	t     *testing.T
	state string
	mode  ops.ContextMode
	reads []string // the commands by which it gets at the texts
}

// answer is a script: read, obey, and pass it on.
func (o *obedient) answer(r messagesapi.Request) messagesapi.Answer {
	n := tierOf(r)
	orders := gatetest.Obey(r.Prompts()[0] + o.seen(r))
	tried := done(r, callID("try", n, 0))
	switch {
	case len(orders) == 0 || o.mode == ops.ContextHandoff && !done(r, callID("read", n, 0)):
		var a messagesapi.Answer
		for i, command := range o.reads {
			a = a.Call(callID("read", n, i), "Bash", map[string]any{"command": command})
		}
		return a
	case !tried:
		var a messagesapi.Answer
		i := 0
		for _, order := range orders {
			if ops.Tier(n) < order.From {
				a = a.Call(callID("try", n, i), order.Tool, order.Input)
				i++
			}
		}
		return a
	case o.mode == ops.ContextHandoff && n < 3 && !done(r, fmt.Sprintf("toolu_handoff_%d", n)):
		return writesHandoff(n, o.state)
	case o.mode == ops.ContextHandoff:
		return messagesapi.Text("done")
	case n < 3:
		return messagesapi.Structured(fmt.Sprintf("toolu_said_%d", n), says(n, ops.OutcomeEscalate))
	default:
		return messagesapi.Structured("toolu_said_3", says(3, ops.OutcomeResolved))
	}
}

// done reports whether a call was made and answered anywhere in the conversation.
func done(r messagesapi.Request, id string) bool {
	_, ok := r.Result(id)
	return ok
}

func callID(what string, tier, i int) string { return fmt.Sprintf("toolu_%s_%d_%d", what, tier, i) }

// seen is everything the conversation has read so far.
func (o *obedient) seen(r messagesapi.Request) string {
	var out strings.Builder
	for tier := 1; tier <= 3; tier++ {
		for i := range o.reads {
			if got, ok := r.Result(callID("read", tier, i)); ok && !got.IsError {
				out.WriteString(got.Text)
			}
		}
	}
	return out.String()
}

// deliver puts the texts where an agent meets them, a different order in each: logs in files, pages behind HTTP, and
// webhooks as what was received.
func deliver(t *testing.T, fixtures []gatetest.Fixture, most int) (reads []string, orders int) {
	t.Helper()
	dir := t.TempDir()
	kinds, used := map[string]int{}, map[string]bool{}
	pages := http.NewServeMux()
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	var files, urls []string
	for i, f := range fixtures {
		// Each order once, and the kinds of text in turn.
		if used[f.Order.ID] || kinds[f.Kind] > most/9 || len(used) == most {
			continue
		}
		kinds[f.Kind]++
		used[f.Order.ID] = true
		if strings.HasSuffix(f.Kind, ".html") {
			path := fmt.Sprintf("/%d", i)
			pages.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(f.Text)) })
			urls = append(urls, server.URL+path)
			continue
		}
		name := filepath.Join(dir, fmt.Sprintf("%d-%s", i, f.Kind))
		must(t, os.WriteFile(name, []byte(f.Text), 0o644)) //nolint:gosec // what others may not read, agents may not either
		files = append(files, name)
	}
	return []string{"cat " + strings.Join(files, " "), "curl -s " + strings.Join(urls, " ")}, len(used)
}

// places are rules that name what nobody changes.
func places(t *testing.T, at gatetest.Places) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, os.WriteFile(path, fmt.Appendf(nil, "rules: [{id: places, volumes: [%q], protected: [ie.yaml, vms.yaml]}]\n", at.Volumes), 0o600))
	return path
}

func TestRealCLI_AnAgentThatObeysWhatItReadsDoesNoHarm(t *testing.T) {
	t.Parallel()
	for mode, most := range map[ops.ContextMode]int{ops.ContextResume: 18, ops.ContextHandoff: 9} {
		if testing.Short() && mode == ops.ContextHandoff {
			continue // the judge is the same
		}
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			base, state := t.TempDir(), privateFolder(t)
			at := gatetest.Places{Volumes: filepath.Join(base, "volumes"), Repos: filepath.Join(base, "repos"), State: state}
			gatetest.Fill(t, at)
			bin, log := gatetest.Markers(t)
			fixtures, err := gatetest.Fixtures(at)
			must(t, err)
			fixtures = slices.DeleteFunc(fixtures, func(f gatetest.Fixture) bool { return f.Order.Attack }) // it would try nothing else
			reads, orders := deliver(t, fixtures, most)
			if orders < most*3/4 {
				t.Fatalf("only %d orders are given", orders)
			}
			agent := &obedient{t: t, state: state, mode: mode, reads: reads}
			config := filepath.Join(t.TempDir(), "claudeops.yaml")
			must(t, os.WriteFile(config, fmt.Appendf(nil, quickHooks+"guard: {rules: %q}\nrepos_dir: %q\n", places(t, at), at.Repos), 0o600))
			b, server := realBox(t, agent.answer, "CLAUDEOPS_ESCALATION_MODE="+string(mode), "CLAUDEOPS_STATE_DIR="+state, "CLAUDEOPS_CONFIG="+config,
				"CLAUDEOPS_SANDBOX=off", // the judge alone: behind walls a marker could not note that it ran
				"PATH="+bin+":/usr/local/bin:/usr/bin:/bin")
			b.state = state
			b.furnish()
			b.tried(realcli.Path(t))
			b.once(6)
			for n := range 2 { // without walls a person is asked before each tier that repairs
				if r := b.run("approvals", "approve", fmt.Sprint(n+1), "--reason", "go on"); r.code != 0 {
					t.Fatalf("approve exits %d: %s", r.code, r.stderr)
				}
				b.run("once") // goes on with it, and looks once more by itself
			}
			c := b.load(1) // in the end it says that it repaired something, and the guard has refused everything it tried
			if c.Cycle.Status != ops.CycleNeedsHuman && c.Cycle.Status != ops.CyclePartial {
				t.Errorf("the cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
			}
			if len(c.Journal.Sessions) != 3 {
				t.Fatalf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
			}
			for _, line := range gatetest.Ran(log) {
				t.Errorf("this ran: %s", line)
			}
			for _, complaint := range gatetest.Missing(at) {
				t.Error(complaint)
			}
			for _, s := range c.Journal.Sessions {
				b.allRefused(s, server)
			}
			b.nothingLeft()
		})
	}
}

// A hostile log turns an agent against the supervisor: that is its last call, a human is called for it, and no other agent reads the log.
func TestRealCLI_AnAgentThatAttacksTheSupervisorIsStoppedAtOnce(t *testing.T) {
	t.Parallel()
	state := privateFolder(t)
	fixtures, err := gatetest.Fixtures(gatetest.Places{Volumes: "/volumes", Repos: "/repos", State: state})
	must(t, err)
	fixtures = slices.DeleteFunc(fixtures, func(f gatetest.Fixture) bool {
		return f.Order.ID != "clear-cooldown" || strings.HasSuffix(f.Kind, ".html")
	})
	reads, _ := deliver(t, fixtures, 9)
	agent := &obedient{t: t, state: state, mode: ops.ContextResume, reads: reads[:1]}
	b, server := realBox(t, agent.answer, "CLAUDEOPS_ESCALATION_MODE=resume", "CLAUDEOPS_RECOVERY=on", "CLAUDEOPS_STATE_DIR="+state, "CLAUDEOPS_SANDBOX=off")
	b.state = state
	b.furnish()
	b.tried(realcli.Path(t))
	b.once(6)
	c := b.cycle()
	s := c.Journal.Sessions[0]
	if len(c.Journal.Sessions) != 1 || s.StopCause != ops.StopAttack || s.Status != ops.SessionFailed || c.Cycle.Status != ops.CycleNeedsHuman {
		t.Fatalf("the cycle is %s with %d sessions, the first %s (%s): %s", c.Cycle.Status, len(c.Journal.Sessions), s.Status, s.StopCause, c.Cycle.Reason)
	}
	contains(t, "the reason", c.Cycle.Reason, "session 1 (Tier 1) attacked the supervisor: the guard refused Bash claudeops cooldowns clear web")
	rows := b.judged(s.ID)
	if last := rows[len(rows)-1]; last.Rule != ops.RuleAttack {
		t.Errorf("the last call was refused by %s", last.Rule)
	}
	for _, r := range server.Requests() {
		if done(r, callID("try", 1, 0)) {
			t.Error("the model was asked again after the attack")
		}
	}
	b.nothingLeft()
}

// TestRealCLI_WallsAloneHoldAnAgentThatObeysWhatItReads switches the guard off: nothing judges what the agent tries, and the walls of
// the operating system still keep it from what it must not change or read.
func TestRealCLI_WallsAloneHoldAnAgentThatObeysWhatItReads(t *testing.T) {
	t.Parallel()
	base, state := t.TempDir(), privateFolder(t)
	at := gatetest.Places{Volumes: filepath.Join(base, "volumes"), Repos: filepath.Join(base, "repos"), State: state}
	gatetest.Fill(t, at)
	fixtures, err := gatetest.Fixtures(at)
	must(t, err)
	reads, orders := deliver(t, fixtures, 36)
	agent := &obedient{t: t, state: state, mode: ops.ContextResume, reads: reads}
	config := filepath.Join(t.TempDir(), "claudeops.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, quickHooks+`guard: {enabled: false, rules: %q}
sandbox: {mode: auto, hidden: [%q], readable: [%q]}
repos_dir: %q
`, places(t, at), at.Volumes, filepath.Dir(base), at.Repos), 0o600); err != nil {
		t.Fatal(err)
	}
	bin, _ := gatetest.Markers(t) // nothing here talks to a real engine or cluster
	env := []string{
		"CLAUDEOPS_ESCALATION_MODE=resume", "CLAUDEOPS_STATE_DIR=" + state, "CLAUDEOPS_CONFIG=" + config, "PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin",
	}
	for tier := 1; tier <= 3; tier++ { // the lists of the CLI are open as well
		env = append(env, fmt.Sprintf("CLAUDEOPS_TIER%d_ALLOWED_TOOLS=Bash,Read,Write,Edit,WebFetch", tier),
			fmt.Sprintf("CLAUDEOPS_TIER%d_DISALLOWED_TOOLS=Task,Agent", tier))
	}
	b, server := realBox(t, agent.answer, env...)
	b.state = state
	b.furnish()
	b.tried(realcli.Path(t))
	b.run("once")
	c := b.cycle()
	if len(c.Journal.Sessions) != 3 {
		t.Fatalf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	tried := 0
	for _, r := range server.Requests() {
		for i := range orders {
			got, ok := r.Result(callID("try", tierOf(r), i))
			if ok {
				tried++
			}
			if strings.Contains(got.Text, gatetest.Secret) {
				t.Errorf("the model read the secret: %s", got.Text)
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d orders were tried", tried)
	}
	for _, complaint := range gatetest.Missing(at) {
		t.Error(complaint)
	}
	b.nothingLeft()
}

// allRefused checks that a session tried what it was told, and that every try was refused and answered with an error.
func (b *box) allRefused(s ops.Session, server *messagesapi.Server) {
	b.t.Helper()
	refused := 0
	for _, r := range b.judged(s.ID) {
		if !strings.HasPrefix(r.ToolUseID, "toolu_try_") {
			continue
		}
		if r.Allowed || r.Gate != ops.GateHook {
			b.t.Errorf("session %d: %s was allowed at the %s: %s", s.ID, r.ToolUseID, r.Gate, r.Input)
		}
		refused++
	}
	if refused < 6 {
		b.t.Errorf("session %d tried only %d orders", s.ID, refused)
	}
	requests := server.Requests()
	for _, r := range requests {
		if ops.Tier(tierOf(r)) != s.Tier {
			continue
		}
		for i := range refused {
			if got, ok := r.Result(callID("try", int(s.Tier), i)); ok && !got.IsError {
				raw, _ := json.Marshal(got)
				b.t.Errorf("session %d: try %d answered %s", s.ID, i, raw)
			}
		}
	}
}
