package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/desk"
	"claudeops/internal/notice"
	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/phonetest"
	"claudeops/test/storetest"
)

const alice, mallory = 42, 666

// phone is a database with questions, and the servers by which people get and answer them.
type phone struct {
	t        *testing.T
	f        *storetest.Fixture
	ntfy     *phonetest.Ntfy
	telegram *phonetest.Telegram
	native   Native

	mu    sync.Mutex
	now   time.Time
	woken []ops.CycleID
	asked int
}

func newPhone(t *testing.T) *phone {
	t.Helper()
	p := &phone{t: t, now: storetest.Start, ntfy: phonetest.NewNtfy(t), telegram: phonetest.NewTelegram(t)}
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: filepath.Join(t.TempDir(), "claudeops.db"), Clock: p.clock}))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	p.f = storetest.NewFixture(t, s)
	p.native = Native{Answers: s.People, TelegramSenders: []int64{alice}}
	return p
}

func (p *phone) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *phone) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

// ask lets a cycle wait for a person and returns the notice of it.
func (p *phone) ask(kind ops.ApprovalKind, plan ...ops.ApprovedStep) (ops.Notice, ops.Approval) {
	p.t.Helper()
	p.asked++
	cycle := p.f.Claim(p.t, fmt.Sprintf("env%d", p.asked)).Cycle.ID
	asked := ops.Approval{Kind: kind, Tier: ops.Tier3, Handler: "tier3", Reason: "why", ExpiresAt: ops.Ptr(p.clock().Add(time.Hour)), Plan: plan}
	if len(plan) > 0 {
		asked.PlanHash = ops.PlanHash(cycle, 1, plan)
	}
	got := p.f.Commit(p.t, ops.Transition{Cycle: cycle, At: p.clock(), Step: ops.Step{Kind: ops.StepAwait, Reason: "asked", Approval: &asked}})
	n := ops.Notice{
		ID: int64(cycle), CycleID: &cycle, Kind: ops.NoticeApproval, Level: ops.LevelCritical, CreatedAt: p.clock(),
		Title: "Claude Ops: Your approval is needed", Body: "web: HTTP 502. May Tier 3 start?\n\n- Why: the image is broken\n",
	}
	if kind == ops.ApprovalReview {
		n.Kind = ops.NoticeReview
	}
	return n, got.Journal.Approvals[0]
}

// call opens incidents of services and returns the notice of them.
func (p *phone) call(services ...string) (ops.Notice, []ops.Incident) {
	p.t.Helper()
	cycle := p.f.Claim(p.t, "home").Cycle.ID
	report := ops.IncidentReport{Title: "no answer", Level: ops.LevelCritical, Class: "unresolved", Services: services}
	got := p.f.Commit(p.t, ops.Transition{Cycle: cycle, At: p.clock(), Step: ops.Step{Kind: ops.StepRest, Incident: &report}})
	p.f.EndCycle(p.t, cycle)
	return ops.Notice{
		ID: int64(cycle), CycleID: &cycle, Kind: ops.NoticeNeedsHuman, Level: ops.LevelCritical, CreatedAt: p.clock(),
		Title: "Claude Ops: Human attention required", Body: "web: HTTP 502. Repair web by hand.\n",
	}, got.Journal.Incidents
}

func (p *phone) send(n ops.Notice, urls ...string) {
	p.t.Helper()
	_, err := NewSender(AppriseOptions{URLs: urls, Dir: p.t.TempDir()}, p.native).Send(p.t.Context(), n)
	must(p.t, err)
}

// desk is where the answers are carried out.
func (p *phone) desk() *desk.Desk {
	d := &desk.Desk{Store: p.f.Store, Control: woken{p: p}, Clock: p.clock}
	for n := range 9 {
		d.Environments = append(d.Environments, ops.Environment{Name: fmt.Sprintf("env%d", n), Policy: storetest.Policy()})
	}
	return d
}

// woken notes the cycles that are woken.
type woken struct {
	desk.Control
	p *phone
}

func (w woken) Wake(id ops.CycleID) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.woken = append(w.p.woken, id)
}

// read reads answers until the returned function stops it.
func (p *phone) read(d Desk, urls ...string) (stop func()) {
	p.t.Helper()
	r := NewReplies(RepliesOptions{
		Native: p.native, Store: p.f.Store.People, Desk: d, URLs: urls, Clock: p.clock, Logger: slog.New(slog.DiscardHandler),
	})
	r.pause = func(ctx context.Context, _ time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			p.t.Errorf("run: %v", err)
		}
	})
	stopped := sync.OnceFunc(func() { cancel(); running.Wait() })
	p.t.Cleanup(stopped)
	return stopped
}

func (p *phone) until(what string, holds func() bool) {
	p.t.Helper()
	deadline := time.After(time.Minute)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-deadline:
			p.t.Fatalf("never: %s; audit %q", what, p.audit())
		case <-ticker.C:
		}
	}
}

func (p *phone) audit() []string {
	p.t.Helper()
	events, err := p.f.Store.Journal.Events(context.WithoutCancel(p.t.Context()), store.EventFilter{Kind: string(ops.EventAudit), Limit: 200})
	must(p.t, err)
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprintf("%s %s", e.Level, notice.Words(e).Words()))
	}
	slices.Reverse(out)
	return out
}

func (p *phone) status(a ops.Approval) ops.ApprovalStatus {
	p.t.Helper()
	got, err := p.f.Store.People.Approval(p.t.Context(), a.ID)
	must(p.t, err)
	return got.Status
}

func labels(m phonetest.Message) (out []string) {
	for _, b := range m.Buttons {
		out = append(out, b.Text)
	}
	return out
}

func TestAQuestionArrivesWithItsFactsAndButtons(t *testing.T) {
	p := newPhone(t)
	n, _ := p.ask(ops.ApprovalTier)
	n.Link = "https://ops.example.org/approvals/1"
	p.send(n, p.telegram.Target("42"), p.ntfy.Target("homelab"))
	m := p.telegram.Messages()[0]
	if m.Chat != "42" || !slices.Equal(labels(m), []string{"Approve", "Deny"}) ||
		m.Text != n.Title+"\n\nweb: HTTP 502. May Tier 3 start? https://ops.example.org/approvals/1\n\n- Why: the image is broken" {
		t.Errorf("Telegram shows %+v", m)
	}
	note := p.ntfy.Notes("homelab")[0]
	if note.Title != n.Title || note.Message != n.Body || note.Priority != 5 || note.Click != n.Link || len(note.Actions) != 2 {
		t.Errorf("ntfy shows %+v", note)
	}
	// Whoever reads the topic may not approve, unless the operator says so: the button opens the page.
	if a := note.Actions[0]; a.Action != "view" || a.Label != "Approve…" || a.URL != n.Link {
		t.Errorf("the first button is %+v", a)
	}
	if a := note.Actions[1]; a.Action != "http" || a.Label != "Deny" || a.Method != "POST" || !strings.HasPrefix(a.URL, p.ntfy.URL+"/claudeops-") {
		t.Errorf("the second button is %+v", a)
	}
}

func TestWhichButtonsANoticeHas(t *testing.T) {
	p := newPhone(t)
	review, _ := p.ask(ops.ApprovalReview)
	one, _ := p.call("web")
	two, _ := p.call("db", "cache")
	done, incidents := p.call("mail")
	_, err := p.f.Store.People.Acknowledge(t.Context(), incidents[len(incidents)-1].ID, "bob", "", p.clock())
	must(t, err)
	asked, _ := p.ask(ops.ApprovalTier)
	asked.Kind = ops.NoticeReminder
	resolved := one
	resolved.Kind = ops.NoticeResolved
	several := one
	several.CycleID = nil
	for _, c := range []struct {
		n    ops.Notice
		want []string
	}{
		{review, []string{"Accept", "Reject"}},
		{one, []string{"Acknowledge", "Snooze 2h"}},
		{two, []string{"Acknowledge", "Snooze 2h"}},
		{done, nil},
		{asked, []string{"Approve", "Deny"}},
		{resolved, nil},
		{several, nil},
	} {
		before := len(p.telegram.Messages())
		p.send(c.n, p.telegram.Target("42"))
		if got := labels(p.telegram.Messages()[before]); !slices.Equal(got, c.want) {
			t.Errorf("%s has %q, want %q", c.n.Kind, got, c.want)
		}
	}
	// Where nobody may answer, there is no button.
	p.native.TelegramSenders = nil
	p.send(review, p.telegram.Target("42"))
	if m := p.telegram.Messages(); len(m[len(m)-1].Buttons) != 0 {
		t.Errorf("without senders: %+v", m[len(m)-1])
	}
}

func TestAnAnswerByTelegram(t *testing.T) {
	p := newPhone(t)
	n, a := p.ask(ops.ApprovalTier, ops.ApprovedStep{PlanStep: ops.PlanStep{Service: "web", Action: "restart"}})
	p.send(n, p.telegram.Target("42"))
	p.read(p.desk(), p.telegram.Target("42"))
	m := p.telegram.Messages()[0]
	p.telegram.Press(t, m, "Approve", alice, "alice")
	p.until("the message is edited", func() bool { return p.telegram.Messages()[0].Edited })
	got, err := p.f.Store.People.Approval(t.Context(), a.ID)
	must(t, err)
	if got.Status != ops.ApprovalApproved || got.AnsweredBy != "@alice (Telegram 42)" || !slices.Equal(got.Steps, []int{1}) {
		t.Errorf("approval is %+v", got)
	}
	if pop := p.telegram.Popups(); len(pop) != 1 || pop[0].Alert || !strings.HasPrefix(pop[0].Text, "Approved (approval ") {
		t.Errorf("popups %+v", pop)
	}
	if after := p.telegram.Messages()[0]; len(after.Buttons) != 0 || !strings.Contains(after.Text, m.Text+"\n\n@alice (Telegram 42): Approved") {
		t.Errorf("the message is %+v", after)
	}
	if !slices.Contains(p.woken, *n.CycleID) {
		t.Errorf("woken are %v", p.woken)
	}
	want := fmt.Sprintf("info @alice (Telegram 42) used a button by Telegram to approve approval %d with the plan %s", a.ID, a.PlanHash[:12])
	if audit := p.audit(); len(audit) != 1 || audit[0] != want {
		t.Errorf("audit %q, want %q", audit, want)
	}
	// The other button of the same question says what was answered.
	p.telegram.Press(t, m, "Deny", alice, "alice")
	p.until("a second popup", func() bool { return len(p.telegram.Popups()) == 2 })
	if pop := p.telegram.Popups()[1]; !pop.Alert || !strings.Contains(pop.Text, "Nothing was changed: @alice (Telegram 42) approved Tier 3 at") {
		t.Errorf("popup %+v", pop)
	}
	// So does the same button again.
	p.telegram.Press(t, m, "Approve", alice, "alice")
	p.until("a third popup", func() bool { return len(p.telegram.Popups()) == 3 })
	if pop := p.telegram.Popups()[2]; !pop.Alert || !strings.Contains(pop.Text, "@alice (Telegram 42) used this button") {
		t.Errorf("popup %+v", pop)
	}
}

// A responder has on the phone the rights that the role has on the pages: answers that start nothing.
func TestAResponderDeniesAndAcknowledgesByTelegram(t *testing.T) {
	const bob = 43
	p := newPhone(t)
	p.native.TelegramSenders, p.native.TelegramResponders = nil, []int64{bob}
	tier, first := p.ask(ops.ApprovalTier)
	review, second := p.ask(ops.ApprovalReview)
	called, incidents := p.call("web")
	p.send(tier, p.telegram.Target("42"))
	p.send(review, p.telegram.Target("42"))
	p.send(called, p.telegram.Target("42"))
	p.read(p.desk(), p.telegram.Target("42"))
	sent := p.telegram.Messages()
	p.telegram.Press(t, sent[0], "Approve", bob, "bob")
	p.telegram.Press(t, sent[1], "Accept", bob, "bob")
	p.until("both are refused", func() bool { return len(p.telegram.Popups()) == 2 })
	for _, pop := range p.telegram.Popups() {
		if !pop.Alert || !strings.Contains(pop.Text, "but not approve; ask one of notify.telegram_senders") {
			t.Errorf("popup %+v", pop)
		}
	}
	if p.status(first) != ops.ApprovalPending || p.status(second) != ops.ApprovalPending || p.telegram.Messages()[0].Edited {
		t.Error("a responder approved")
	}
	if audit := p.audit(); len(audit) != 2 || !strings.Contains(audit[0], "warning an answer of @bob (Telegram 43) by Telegram to approve approval 1 was refused: this sender may acknowledge") {
		t.Errorf("audit %q", audit)
	}
	p.telegram.Press(t, sent[0], "Deny", bob, "bob")
	p.telegram.Press(t, sent[2], "Acknowledge", bob, "bob")
	p.until("both are done", func() bool { m := p.telegram.Messages(); return m[0].Edited && m[2].Edited })
	if p.status(first) != ops.ApprovalDenied {
		t.Errorf("the approval is %s", p.status(first))
	}
	got, err := p.f.Store.People.Incident(t.Context(), incidents[0].ID)
	must(t, err)
	if got.Status != ops.IncidentAcknowledged {
		t.Errorf("the incident is %s", got.Status)
	}
}

func TestStrangersAreRefusedAndAudited(t *testing.T) {
	p := newPhone(t)
	n, a := p.ask(ops.ApprovalTier)
	p.send(n, p.telegram.Target("42"))
	p.read(p.desk(), p.telegram.Target("42"))
	m := p.telegram.Messages()[0]
	p.telegram.Press(t, m, "Approve", mallory, "alice")
	p.telegram.Say(mallory, "evil\x1b]0;", "/approve 1")
	p.telegram.Say(alice, "alice", "approve it please")
	p.until("everything is read", func() bool { return p.telegram.Waiting() == 0 && len(p.telegram.Messages()) == 2 })
	if p.status(a) != ops.ApprovalPending {
		t.Error("a stranger approved")
	}
	if pop := p.telegram.Popups(); len(pop) != 1 || !strings.Contains(pop[0].Text, "not one of notify.telegram_senders") {
		t.Errorf("popups %+v", pop)
	}
	audit := p.audit()
	if len(audit) != 2 || !strings.Contains(audit[0], "warning an answer of @alice (Telegram 666) by Telegram was refused: the sender is not one of") ||
		!strings.Contains(audit[1], "an answer of Telegram 666 by Telegram was refused") {
		t.Errorf("audit %q", audit)
	}
	if after := p.telegram.Messages()[0]; after.Edited {
		t.Error("a stranger changed the message")
	}
	if said := p.telegram.Messages()[1]; said.Text != "Use the buttons below a notice." {
		t.Errorf("said %+v", said)
	}
	// A flood fills neither the journal nor the chat.
	for range 200 {
		p.telegram.Press(t, m, "Deny", mallory, "")
	}
	p.until("the flood is read", func() bool { return p.telegram.Waiting() == 0 })
	if got := len(p.audit()); got != mostRefused {
		t.Errorf("%d rows for 202 refused answers", got)
	}
	if got := len(p.telegram.Popups()); got > mostTold {
		t.Errorf("%d replies to a stranger", got)
	}
}

func TestHostileButtonsDoNothing(t *testing.T) {
	p := newPhone(t)
	n, a := p.ask(ops.ApprovalTier)
	p.send(n, p.telegram.Target("42"))
	m := p.telegram.Messages()[0]
	key, err := p.f.Store.People.AnswerKey(t.Context())
	must(t, err)
	keep := func(token answer.Token) string {
		text := answer.Sign(key, token)
		must(t, p.f.Store.People.KeepAnswerCodes(t.Context(), []string{text}, answer.Code, token.Expires))
		return answer.Code(text)
	}
	genuine := answer.Token{Subject: answer.Subject{Kind: answer.KindApproval, ID: a.ID}, Decision: answer.Approve, Recipient: "telegram:42", Expires: p.clock().Add(time.Hour)}
	late, plan, elsewhere := genuine, genuine, genuine
	late.Expires = p.clock().Add(-time.Second)
	plan.Plan = "another"
	elsewhere.Recipient = "ntfy:00000000"
	forged := answer.Sign([]byte(strings.Repeat("x", 32)), genuine)
	must(t, p.f.Store.People.KeepAnswerCodes(t.Context(), []string{forged}, answer.Code, genuine.Expires))
	p.read(p.desk(), p.telegram.Target("42"))
	for _, c := range []struct {
		data string
		chat int64
		want string
	}{
		{"", 42, "unknown or too old"},
		{"\x00", 42, "unknown or too old"},
		{"' OR 1=1 --", 42, "unknown or too old"},
		{strings.Repeat("A", 5000), 42, "unknown or too old"},
		{"AAAAAAAAAAAAAAAAAAAAAAAA", 42, "unknown or too old"},
		{m.Buttons[0].Data, 43, "sent to another chat"},
		{keep(late), 42, "came too late"},
		{keep(plan), 42, "the plan is not the one that was shown"},
		{keep(elsewhere), 42, "sent to another chat"},
		{answer.Code(forged), 42, "not genuine"},
	} {
		before := len(p.telegram.Popups())
		p.telegram.Callback(c.data, c.chat, m, alice, "alice")
		p.until("a popup for "+c.want, func() bool { return len(p.telegram.Popups()) > before })
		if pop := p.telegram.Popups()[before]; !pop.Alert || !strings.Contains(pop.Text, c.want) {
			t.Errorf("%.30q gives %+v, want %q", c.data, pop, c.want)
		}
		audit := p.audit()
		if last := audit[len(audit)-1]; !strings.HasPrefix(last, "warning") || !strings.Contains(last, c.want) {
			t.Errorf("%.30q is recorded as %q", c.data, last)
		}
	}
	if p.status(a) != ops.ApprovalPending {
		t.Error("a hostile button approved")
	}
}

func TestAnAnswerByNtfy(t *testing.T) {
	p := newPhone(t)
	n, a := p.ask(ops.ApprovalTier)
	target := p.ntfy.Target("homelab")
	p.send(n, target)
	p.read(p.desk(), target)
	note := p.ntfy.Notes("homelab")[0]
	p.ntfy.Press(t, note, "Deny")
	p.until("it is told", func() bool { return len(p.ntfy.Notes("homelab")) == 2 })
	got, err := p.f.Store.People.Approval(t.Context(), a.ID)
	must(t, err)
	if got.Status != ops.ApprovalDenied || !strings.HasPrefix(got.AnsweredBy, "ntfy at 127.0.0.1:") || strings.Contains(got.AnsweredBy, "homelab") {
		t.Errorf("approval is %+v", got)
	}
	if said := p.ntfy.Notes("homelab")[1]; !strings.HasPrefix(said.Message, fmt.Sprintf("Denied (approval %d). ", a.ID)) || len(said.Actions) != 0 {
		t.Errorf("said %+v", said)
	}
	p.ntfy.Press(t, note, "Deny")
	p.until("the second press is told", func() bool { return len(p.ntfy.Notes("homelab")) == 3 })
	if said := p.ntfy.Notes("homelab")[2]; !strings.Contains(said.Message, " used this button at") {
		t.Errorf("said %+v", said)
	}
	if audit := p.audit(); len(audit) != 2 || !strings.Contains(audit[0], "by ntfy to deny approval") {
		t.Errorf("audit %q", audit)
	}
}

// One incident is one notice on the phone, also after it was answered and when it is over.
func TestNtfyUpdatesTheNoticeOfAnIncident(t *testing.T) {
	p := newPhone(t)
	n, _ := p.call("web")
	target := p.ntfy.Target("homelab")
	p.send(n, target)
	p.read(p.desk(), target)
	first := p.ntfy.Notes("homelab")[0]
	if first.Sequence == "" || len(first.Sequence) > 64 {
		t.Fatalf("%+v", first)
	}
	p.ntfy.Press(t, first, "Acknowledge")
	p.until("it is told", func() bool { return len(p.ntfy.Notes("homelab")) == 2 })
	if shown := p.ntfy.Phone("homelab"); len(shown) != 1 || shown[0].Title != "Claude Ops: your answer" {
		t.Errorf("after the answer the phone shows %+v", shown)
	}
	over := n
	over.ID, over.Kind, over.Level, over.Title, over.Body = n.ID+100, ops.NoticeResolved, ops.LevelInfo, "Claude Ops: web works again", "Down for 3 minutes."
	p.send(over, target)
	if shown := p.ntfy.Phone("homelab"); len(shown) != 1 || !strings.Contains(shown[0].Title, "works again") {
		t.Errorf("at the end the phone shows %+v", shown)
	}
	other, _ := p.ask(ops.ApprovalTier)
	p.send(other, target)
	plain := ops.Notice{ID: 999, Kind: ops.NoticeHost, Level: ops.LevelWarning, Title: "Claude Ops: a host is away", Body: "b"}
	p.send(plain, target)
	p.send(plain, target)
	if shown := p.ntfy.Phone("homelab"); len(shown) != 4 {
		t.Errorf("another problem, and what is about none, have notices of their own: %+v", shown)
	}
}

func TestOnlyTheSettingLetsNtfyApprove(t *testing.T) {
	p := newPhone(t)
	n, a := p.ask(ops.ApprovalTier)
	target := p.ntfy.Target("homelab")
	p.native.ApproveByNtfy = true
	p.send(n, target)
	note := p.ntfy.Notes("homelab")[0]
	// The setting was turned off after the message was sent.
	p.native.ApproveByNtfy = false
	stop := p.read(p.desk(), target)
	p.ntfy.Press(t, note, "Approve")
	p.until("the refusal is told", func() bool { return len(p.ntfy.Notes("homelab")) == 2 })
	stop()
	if said := p.ntfy.Notes("homelab")[1]; p.status(a) != ops.ApprovalPending || !strings.Contains(said.Message, "notify.approve_by_ntfy") {
		t.Errorf("%s, said %+v", p.status(a), said)
	}
	p.native.ApproveByNtfy = true
	p.read(p.desk(), target)
	p.ntfy.Press(t, note, "Approve")
	p.until("it is approved", func() bool { return p.status(a) == ops.ApprovalApproved })
}

func TestHostileTextsAtTheReplyTopicDoNothing(t *testing.T) {
	p := newPhone(t)
	n, a := p.ask(ops.ApprovalTier)
	target, other := p.ntfy.Target("homelab"), p.ntfy.Target("family")
	p.send(n, target)
	p.send(n, other)
	p.read(p.desk(), target, other)
	note, family := p.ntfy.Notes("homelab")[0], p.ntfy.Notes("family")[0]
	topic := note.Actions[0].URL
	if topic == family.Actions[0].URL {
		t.Error("two targets share a topic of answers")
	}
	texts := []string{
		"", "approve", "\x00", `{"decision":"approve"}`, strings.Repeat("A", 4096), note.Actions[0].Body + "A", note.Actions[0].Body[1:],
		strings.Repeat("x", 200_000), family.Actions[0].Body,
	}
	for _, text := range texts {
		p.ntfy.Post(t, topic, text)
	}
	// The last one shows that the others were read.
	p.ntfy.Press(t, note, "Deny")
	p.until("the genuine answer counts", func() bool { return p.status(a) == ops.ApprovalDenied })
	audit := p.audit()
	if len(audit) != len(texts) { // the too long line is skipped, the genuine one is recorded
		t.Errorf("%d rows: %q", len(audit), audit)
	}
	for _, row := range audit[:len(audit)-1] {
		if !strings.Contains(row, "warning") || !strings.Contains(row, "not genuine") && !strings.Contains(row, "another target") {
			t.Errorf("audit %q", row)
		}
	}
}

func TestARestartLosesNothingAndRepeatsNothing(t *testing.T) {
	p := newPhone(t)
	first, a1 := p.ask(ops.ApprovalTier)
	second, a2 := p.ask(ops.ApprovalTier)
	third, a3 := p.ask(ops.ApprovalTier)
	urls := []string{p.telegram.Target("42"), p.ntfy.Target("homelab")}
	for _, n := range []ops.Notice{first, second, third} {
		p.send(n, urls...)
	}
	stop := p.read(p.desk(), urls...)
	p.telegram.Press(t, p.telegram.Messages()[0], "Deny", alice, "alice")
	p.until("the first is answered", func() bool { return p.status(a1) == ops.ApprovalDenied })
	notes := p.ntfy.Notes("homelab")
	p.ntfy.Press(t, notes[1], "Deny")
	p.until("the second is answered", func() bool { return p.status(a2) == ops.ApprovalDenied })
	stop()
	rows := len(p.audit())
	// Down: an answer comes, and everything is delivered once more.
	p.telegram.Press(t, p.telegram.Messages()[2], "Deny", alice, "alice")
	p.telegram.Repeat()
	before := len(p.ntfy.Since())
	p.read(p.desk(), urls...)
	p.until("what came meanwhile is answered", func() bool { return p.status(a3) == ops.ApprovalDenied })
	p.until("ntfy is read again", func() bool { return len(p.ntfy.Since()) > before })
	if since := p.ntfy.Since(); since[before] == "all" || since[before] == "" {
		t.Errorf("the topic is read from %q", since[before])
	}
	p.until("all is confirmed", func() bool { return p.telegram.Waiting() == 0 })
	if got := p.audit(); len(got) != rows+1 {
		t.Errorf("%d rows after a repeat of everything: %q", len(got), got)
	}
	if offsets := p.telegram.Offsets(); offsets[0] != 0 || offsets[len(offsets)-1] < 903 {
		t.Errorf("offsets %v", offsets)
	}
	// A server that forgot where we were sends all again.
	p.ntfy.Cut()
	p.until("it is read after the cut", func() bool { return len(p.ntfy.Since()) > before+1 })
	if got := p.audit(); len(got) != rows+1 {
		t.Errorf("%d rows after a cut", len(got))
	}
}

// failing is a database that fails to record some replies.
type failing struct {
	Desk
	mu    sync.Mutex
	fails int
	after bool // it is recorded, but the caller is not told
}

func (f *failing) Reply(ctx context.Context, r answer.Reply) (answer.Result, error) {
	f.mu.Lock()
	fail := f.fails > 0
	f.fails--
	f.mu.Unlock()
	if fail && !f.after {
		return answer.Result{}, errors.New("database is locked")
	}
	result, err := f.Desk.Reply(ctx, r)
	if fail {
		return answer.Result{}, errors.New("connection lost")
	}
	return result, err
}

func TestAnAnswerThatCouldNotBeRecordedIsTakenAgain(t *testing.T) {
	for name, after := range map[string]bool{"not recorded": false, "recorded, but not known": true} {
		t.Run(name, func(t *testing.T) {
			p := newPhone(t)
			n, incidents := p.call("web")
			urls := []string{p.telegram.Target("42"), p.ntfy.Target("homelab")}
			p.send(n, urls...)
			p.read(&failing{Desk: p.desk(), fails: 2, after: after}, urls...)
			p.telegram.Press(t, p.telegram.Messages()[0], "Snooze 2h", alice, "alice")
			p.until("it is snoozed", func() bool {
				i, err := p.f.Store.People.Incident(t.Context(), incidents[0].ID)
				must(t, err)
				return i.Status == ops.IncidentSnoozed
			})
			p.ntfy.Press(t, p.ntfy.Notes("homelab")[0], "Acknowledge")
			p.until("it is acknowledged", func() bool {
				i, err := p.f.Store.People.Incident(t.Context(), incidents[0].ID)
				must(t, err)
				return i.Status == ops.IncidentAcknowledged
			})
			p.until("all is read", func() bool { return p.telegram.Waiting() == 0 })
			if audit := p.audit(); len(audit) != 2 {
				t.Errorf("audit %q", audit)
			}
		})
	}
}

func TestTwoReadersActOnce(t *testing.T) {
	p := newPhone(t)
	n, incidents := p.call("web")
	urls := []string{p.ntfy.Target("homelab")}
	p.send(n, urls...)
	p.read(p.desk(), urls...)
	p.read(p.desk(), urls...)
	p.until("both read", func() bool { return p.ntfy.Streams() == 2 })
	p.ntfy.Press(t, p.ntfy.Notes("homelab")[0], "Snooze 2h")
	p.until("one says so", func() bool { return len(p.ntfy.Notes("homelab")) == 2 })
	i, err := p.f.Store.People.Incident(t.Context(), incidents[0].ID)
	must(t, err)
	if audit := p.audit(); i.Status != ops.IncidentSnoozed || len(audit) != 1 {
		t.Errorf("%s, audit %q", i.Status, audit)
	}
}

func TestAnAnswerAfterTheExpiryIsTooLate(t *testing.T) {
	p := newPhone(t)
	n, a := p.ask(ops.ApprovalTier)
	urls := []string{p.telegram.Target("42"), p.ntfy.Target("homelab")}
	p.send(n, urls...)
	p.pass(time.Hour) // nobody has recorded yet that the question expired
	p.read(p.desk(), urls...)
	p.telegram.Press(t, p.telegram.Messages()[0], "Approve", alice, "alice")
	p.ntfy.Press(t, p.ntfy.Notes("homelab")[0], "Deny")
	p.until("both are told", func() bool { return len(p.telegram.Popups()) == 1 && len(p.ntfy.Notes("homelab")) == 2 })
	if p.status(a) != ops.ApprovalPending || !strings.Contains(p.telegram.Popups()[0].Text, "came too late") ||
		!strings.Contains(p.ntfy.Notes("homelab")[1].Message, "came too late") {
		t.Errorf("%s, %+v", p.status(a), p.telegram.Popups())
	}
	// A notice that is sent now has no buttons for a question that was answered or withdrawn.
	_, err := p.f.Store.People.Answer(t.Context(), a.ID, ops.ApprovalExpired, "claudeops", "nobody answered in time", p.clock())
	must(t, err)
	p.send(n, urls...)
	if m := p.telegram.Messages(); len(m[len(m)-1].Buttons) != 0 {
		t.Errorf("buttons %+v", m[len(m)-1].Buttons)
	}
}

func TestWhatAMessageDoesNotShowIsNotApprovedWithOnePress(t *testing.T) {
	p := newPhone(t)
	n, _ := p.ask(ops.ApprovalTier)
	n.Body, n.Link = "May the plan run?\n\n"+strings.Repeat("1. restart of web: docker restart wäb\n", 200), "https://ops.example.org/approvals/1"
	p.native.ApproveByNtfy = true
	p.send(n, p.telegram.Target("42"), p.ntfy.Target("homelab"))
	m, note := p.telegram.Messages()[0], p.ntfy.Notes("homelab")[0]
	if !slices.Equal(labels(m), []string{"Deny"}) || !strings.HasSuffix(m.Text, "The rest is on the page and in claudeops.") {
		t.Errorf("Telegram shows %q", labels(m))
	}
	if note.Actions[0].Action != "view" || len(note.Message) > longestNtfy {
		t.Errorf("ntfy shows %+v", note.Actions)
	}
}

func TestAFailedTargetDoesNotRepeatTheOthers(t *testing.T) {
	p := newPhone(t)
	n, _ := p.call("web")
	p.telegram.Fail(1)
	s := NewSender(AppriseOptions{URLs: []string{p.ntfy.Target("a"), p.telegram.Target("42"), p.ntfy.Target("b")}}, p.native)
	took, err := s.Send(t.Context(), n)
	if err == nil || !strings.Contains(err.Error(), "the Telegram API answered HTTP 429: Too Many Requests") || strings.Contains(err.Error(), phonetest.Bot) {
		t.Fatalf("error is %v", err)
	}
	for _, to := range took {
		n.Deliveries = append(n.Deliveries, ops.Delivery{To: to})
	}
	_, err = s.Send(t.Context(), n)
	must(t, err)
	if len(p.ntfy.Notes("a")) != 1 || len(p.ntfy.Notes("b")) != 1 || len(p.telegram.Messages()) != 1 {
		t.Errorf("ntfy %d and %d, Telegram %d", len(p.ntfy.Notes("a")), len(p.ntfy.Notes("b")), len(p.telegram.Messages()))
	}
	p.ntfy.Fail(1)
	_, err = s.Send(t.Context(), ops.Notice{Title: "x"})
	if err == nil || strings.Contains(err.Error(), "/a") || !strings.Contains(err.Error(), "answered HTTP 500") {
		t.Errorf("error is %v", err)
	}
}

func TestErrorsShowNoToken(t *testing.T) {
	p := newPhone(t)
	_, err := NewSender(AppriseOptions{URLs: []string{"tgram://" + phonetest.Bot + "/42?api=http://127.0.0.1:1", "ntfy://tk_secretsecret@127.0.0.1:1/secret-topic"}}, p.native).
		Send(t.Context(), ops.Notice{Title: "x"})
	if err == nil || strings.Contains(err.Error(), "AAtest") || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "reach Telegram") {
		t.Errorf("error is %v", err)
	}
}

func TestAnNtfyServerWithAccessControl(t *testing.T) {
	p := newPhone(t)
	p.ntfy.Auth = "Bearer tk_secret"
	n, a := p.ask(ops.ApprovalTier)
	target := strings.Replace(p.ntfy.Target("homelab"), "ntfy://", "ntfy://tk_secret@", 1) + "?reply=answers"
	p.send(n, target)
	note := p.ntfy.Notes("homelab")[0]
	if note.Actions[0].URL != p.ntfy.URL+"/answers" || strings.Contains(fmt.Sprint(note), "tk_secret") {
		t.Errorf("the button is %+v", note.Actions[0])
	}
	p.read(p.desk(), target)
	p.ntfy.Press(t, note, "Deny")
	p.until("it is denied", func() bool { return p.status(a) == ops.ApprovalDenied })
}

// Who acknowledges or snoozes from the phone during a silence gets what the button says.
func TestASilenceDoesNotChangeAnAnswer(t *testing.T) {
	for _, button := range []string{"Acknowledge", "Snooze 2 h"} {
		t.Run(button, func(t *testing.T) {
			p := newPhone(t)
			n, opened := p.call("web", "db")
			for _, service := range []string{"web", "db"} {
				_, err := p.f.Store.Watch.AddSilence(t.Context(), ops.Silence{
					Environment: "home", Service: service, Reason: "new disk", Author: "bob", Until: p.clock().Add(time.Hour),
				})
				must(t, err)
			}
			p.send(n, p.telegram.Target("42"))
			p.read(p.desk(), p.telegram.Target("42"))
			m := p.telegram.Messages()[0]
			i := slices.IndexFunc(m.Buttons, func(b phonetest.Button) bool { return strings.HasPrefix(b.Text, button[:6]) })
			if i < 0 {
				t.Fatalf("buttons %q", labels(m))
			}
			p.telegram.Press(t, m, m.Buttons[i].Text, alice, "alice")
			p.until("the popup", func() bool { return len(p.telegram.Popups()) == 1 })
			if pop := p.telegram.Popups()[0]; pop.Alert {
				t.Fatalf("popup %+v", pop)
			}
			want := ops.IncidentAcknowledged
			if button != "Acknowledge" {
				want = ops.IncidentSnoozed
			}
			for _, o := range opened {
				got, err := p.f.Store.People.Incident(t.Context(), o.ID)
				must(t, err)
				if got.Status != want {
					t.Errorf("incident %d is %s", o.ID, got.Status)
				}
			}
		})
	}
}
