package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/phonetest"
)

const (
	ada, bea, eve = "U0ADA", "U0BEA", "U0EVE"
	opsChannel    = "C0OPS"

	strangerAtSlack = "the sender is not one of the Slack target's senders or the Slack target's responders"
)

// slacked is a phone whose target is a channel where ada may answer and bea may not approve.
func slacked(t *testing.T) (p *phone, s *phonetest.Slack, target string) {
	t.Helper()
	p, s = newPhone(t), phonetest.NewSlack(t)
	return p, s, s.Target(opsChannel, "&senders="+ada+"&responders="+bea)
}

func shown(p phonetest.Post) (out []string) {
	for _, b := range p.Buttons {
		out = append(out, b.Text)
	}
	return out
}

func TestAnAnswerBySlack(t *testing.T) {
	p, s, target := slacked(t)
	n, a := p.ask(ops.ApprovalTier, ops.ApprovedStep{PlanStep: ops.PlanStep{Service: "web", Action: "restart"}})
	n.Link = "https://ops.example.org/approvals/1?a=1&b=2"
	p.send(n, target)
	p.read(p.desk(), target)
	m := s.Posts()[0]
	if m.Channel != opsChannel || m.Thread != "" || m.Alert != n.Title || !slices.Equal(shown(m), []string{"Approve", "Deny"}) ||
		!strings.Contains(m.Text, "web: HTTP 502. May Tier 3 start?\n\n- Why: the image is broken") ||
		!strings.Contains(m.Text, "Details (https://ops.example.org/approvals/1?a=1&b=2)") {
		t.Errorf("the message is %+v", m)
	}
	s.Press(t, m, "Approve", ada, "ada.l")
	p.until("the message is updated", func() bool { return s.Posts()[0].Updates == 1 })
	got, err := p.f.Store.Approval(t.Context(), a.ID)
	must(t, err)
	if got.Status != ops.ApprovalApproved || got.AnsweredBy != "@ada.l (Slack U0ADA)" || !slices.Equal(got.Steps, []int{1}) || !slices.Contains(p.woken, *n.CycleID) {
		t.Errorf("approval is %+v, woken are %v", got, p.woken)
	}
	if after := s.Posts()[0]; len(after.Buttons) != 0 || !strings.HasPrefix(after.Text, m.Text+"\n@ada.l (Slack U0ADA): Approved (approval") {
		t.Errorf("the message is %+v", after)
	}
	want := fmt.Sprintf("info @ada.l (Slack U0ADA) used a button by Slack to approve approval %d with the plan %s", a.ID, a.PlanHash[:12])
	if audit := p.audit(); len(audit) != 1 || audit[0] != want {
		t.Errorf("audit %q, want %q", audit, want)
	}
	// Other buttons that somebody still sees say what was answered.
	s.Press(t, m, "Deny", ada, "ada.l")
	s.Press(t, m, "Approve", ada, "ada.l")
	p.until("both are told", func() bool { return len(s.Whispers()) == 2 })
	if w := s.Whispers(); w[0].User != ada || !strings.Contains(w[0].Text, "Nothing was changed: @ada.l (Slack U0ADA) approved Tier 3 at") ||
		!strings.Contains(w[1].Text, "this button was used by @ada.l") {
		t.Errorf("whispers %+v", w)
	}
}

func TestWhoMayAnswerBySlack(t *testing.T) {
	p, s, target := slacked(t)
	n, a := p.ask(ops.ApprovalTier)
	p.send(n, target)
	p.read(p.desk(), target)
	m := s.Posts()[0]
	s.Press(t, m, "Approve", eve, "ada")
	s.Press(t, m, "Deny", eve, "evil <!channel>")
	s.Press(t, m, "Approve", bea, "bea")
	p.until("all are refused", func() bool { return len(s.Whispers()) == 3 })
	audit := p.audit()
	if len(audit) != 3 || audit[0] != "warning an answer of @ada (Slack U0EVE) by Slack was refused: "+strangerAtSlack ||
		!strings.HasPrefix(audit[1], "warning an answer of Slack U0EVE by Slack was refused") || !strings.Contains(audit[2], "to approve approval") ||
		!strings.Contains(audit[2], "but not approve; ask one of the Slack target's senders") {
		t.Errorf("audit %q", audit)
	}
	if p.status(a) != ops.ApprovalPending || s.Posts()[0].Updates != 0 {
		t.Errorf("%s, %+v", p.status(a), s.Posts()[0])
	}
	s.Press(t, m, "Deny", bea, "bea")
	p.until("a responder denies", func() bool { return p.status(a) == ops.ApprovalDenied })
	// A channel where nobody may answer has no buttons, and no connection.
	mute := s.Target("C0NEWS", "")
	other, _ := p.ask(ops.ApprovalTier)
	p.send(other, mute)
	if posts := s.Posts(); len(posts[1].Buttons) != 0 || NewReplies(RepliesOptions{URLs: []string{mute}}).Needed() {
		t.Errorf("%+v", posts[1])
	}
}

func TestHostilePressesBySlackDoNothing(t *testing.T) {
	p, s, target := slacked(t)
	elsewhere := s.Target("C0ELSE", "&senders="+ada)
	n, a := p.ask(ops.ApprovalTier)
	p.send(n, target)
	p.read(p.desk(), target, elsewhere)
	m := s.Posts()[0]
	code := m.Buttons[1].Data
	s.Envelope("events_api", map[string]any{"type": "event_callback"})
	s.Envelope("slash_commands", "nonsense")
	s.Envelope("interactive", []int{1})
	s.Envelope("interactive", map[string]any{"type": "view_submission", "user": map[string]any{"id": ada}})
	s.Envelope("interactive", map[string]any{"type": "block_actions", "user": map[string]any{"id": ada}, "actions": []any{}})
	p.until("other envelopes are acknowledged", func() bool { return s.Waiting() == 0 })
	for _, c := range []struct{ value, channel string }{{"", opsChannel}, {strings.Repeat("x", 65), opsChannel}, {"../../etc", opsChannel}, {"abcdef", opsChannel}, {code, "C0ELSE"}, {code, "C0NONE"}} {
		s.Action(c.value, c.channel, m, ada, "ada")
	}
	p.until("all are refused", func() bool { return len(s.Whispers()) == 6 })
	if w := s.Whispers(); !strings.Contains(w[0].Text, "the button is unknown or too old") || !strings.Contains(w[4].Text, "the button was sent to another chat") ||
		!strings.Contains(w[5].Text, strangerAtSlack) {
		t.Errorf("whispers %+v", w)
	}
	if p.status(a) != ops.ApprovalPending || len(p.audit()) != 6 || s.Posts()[0].Updates != 0 {
		t.Errorf("%s, audit %q", p.status(a), p.audit())
	}
}

func TestSlackTellsEachProblemInAThread(t *testing.T) {
	p, s, target := slacked(t)
	n, incidents := p.call("web")
	opened := n
	opened.Kind, opened.Title = ops.NoticeOpened, "Claude Ops: web is down"
	p.send(opened, target)
	p.send(n, target)
	p.read(p.desk(), target)
	posts := s.Posts()
	if len(posts) != 2 || posts[1].Thread != posts[0].ID || !posts[1].Broadcast || len(posts[0].Buttons) != 0 || len(posts[1].Buttons) != 2 {
		t.Fatalf("posts %+v", posts)
	}
	s.Press(t, posts[1], "Acknowledge", bea, "bea")
	p.until("both show it", func() bool { now := s.Posts(); return now[0].Updates == 1 && now[1].Updates == 1 })
	if now := s.Posts(); now[0].Text != posts[0].Text+"\n\n@bea (Slack U0BEA): Acknowledged (incident 1)." || len(now[1].Buttons) != 0 || !now[1].Broadcast {
		t.Errorf("after the answer %+v", now)
	}
	if i, err := p.f.Store.Incident(t.Context(), incidents[0].ID); err != nil || i.Status != ops.IncidentAcknowledged {
		t.Errorf("%s, %v", i.Status, err)
	}
	over := n
	over.ID, over.Kind, over.Level, over.Title, over.Body = n.ID+100, ops.NoticeResolved, ops.LevelInfo, "Claude Ops: web works again", "Down for 3 minutes."
	// If the last message cannot be posted, the first is updated again with it.
	s.Fail("chat.postMessage", "ratelimited")
	if _, err := NewSender(AppriseOptions{URLs: []string{target}}, p.native).Send(t.Context(), over); err == nil || !strings.Contains(err.Error(), `answered "ratelimited"`) {
		t.Errorf("error is %v", err)
	}
	p.send(over, target)
	if now := s.Posts(); len(now) != 3 || now[0].Text != posts[0].Text+"\n\n@bea (Slack U0BEA): Acknowledged (incident 1).\n\nClaude Ops: web works again" || now[2].Thread != posts[0].ID || now[2].Broadcast {
		t.Errorf("at the end %+v", now)
	}
	other, _ := p.ask(ops.ApprovalTier)
	plain := ops.Notice{ID: 999, Kind: ops.NoticeHost, Level: ops.LevelWarning, Title: "Claude Ops: a host is away", Body: "b"}
	p.send(other, target)
	p.send(plain, target)
	p.send(plain, target)
	for _, m := range s.Posts()[3:] {
		if m.Thread != "" {
			t.Errorf("another problem, and what is about none, are in a thread: %+v", m)
		}
	}
	// Somebody deleted the first message: the next one begins a thread again.
	s.Delete(posts[0].ID)
	p.send(over, target)
	p.send(over, target)
	if now := s.Posts(); now[len(now)-2].Thread != "" || now[len(now)-1].Thread != now[len(now)-2].ID {
		t.Errorf("after the deletion %+v", now)
	}
}

func TestASecondDeliveryBySlackDoesNothing(t *testing.T) {
	p, s, target := slacked(t)
	first, a1 := p.ask(ops.ApprovalTier)
	second, a2 := p.ask(ops.ApprovalTier)
	p.send(first, target)
	p.send(second, target)
	stop := p.read(p.desk(), target)
	m := s.Posts()
	s.Press(t, m[0], "Deny", ada, "ada")
	s.Press(t, m[0], "Deny", eve, "eve")
	p.until("both are taken", func() bool { return p.status(a1) == ops.ApprovalDenied && s.Waiting() == 0 && len(s.Whispers()) == 1 })
	s.Repeat()
	p.until("they are acknowledged again", func() bool { return s.Waiting() == 0 })
	if len(p.audit()) != 2 || len(s.Whispers()) != 1 || s.Posts()[0].Updates != 1 {
		t.Errorf("after a repeat: audit %q, whispers %+v", p.audit(), s.Whispers())
	}
	stop()
	s.Press(t, m[1], "Deny", ada, "ada") // while nobody listens
	s.Repeat()
	p.read(p.desk(), target)
	p.until("what came meanwhile is answered", func() bool { return p.status(a2) == ops.ApprovalDenied && s.Waiting() == 0 })
	if len(p.audit()) != 3 || len(s.Whispers()) != 1 {
		t.Errorf("after a restart: audit %q, whispers %+v", p.audit(), s.Whispers())
	}
}

func TestAPressThatCouldNotBeRecordedIsNotAcknowledged(t *testing.T) {
	for name, after := range map[string]bool{"not recorded": false, "recorded, but not known": true} {
		t.Run(name, func(t *testing.T) {
			p, s, target := slacked(t)
			n, incidents := p.call("web")
			p.send(n, target)
			p.read(&failing{Desk: p.desk(), fails: 2, after: after}, target)
			s.Press(t, s.Posts()[0], "Snooze 2h", ada, "ada")
			p.until("it is acknowledged", func() bool { return s.Waiting() == 0 })
			i, err := p.f.Store.Incident(t.Context(), incidents[0].ID)
			must(t, err)
			if acks := s.Acks(); i.Status != ops.IncidentSnoozed || len(acks) != 1 || len(p.audit()) != 1 {
				t.Errorf("%s, acks %q, audit %q", i.Status, acks, p.audit())
			}
		})
	}
}

func TestSlackIsConnectedAgain(t *testing.T) {
	p, s, target := slacked(t)
	n, a := p.ask(ops.ApprovalTier)
	p.send(n, target)
	p.read(p.desk(), target)
	connected := func(opened int) func() bool {
		return func() bool { now, _, all := s.Connections(); return now == 1 && all == opened }
	}
	p.until("the connection", connected(1))
	for i, reason := range []string{"warning", "refresh_requested", "link_disabled"} {
		s.Disconnect(reason)
		p.until("a new one after "+reason, connected(i+2))
	}
	s.Cut()
	p.until("a new one after a cut", connected(5))
	s.Fail("apps.connections.open", "internal_error", "ratelimited")
	s.Cut()
	p.until("a new one after errors", connected(6))
	s.Press(t, s.Posts()[0], "Deny", ada, "ada")
	p.until("it is denied", func() bool { return p.status(a) == ops.ApprovalDenied })
	if _, most, _ := s.Connections(); most != 1 {
		t.Errorf("%d connections at once", most)
	}
}

func TestALongMessageToSlack(t *testing.T) {
	p, s, target := slacked(t)
	n, _ := p.ask(ops.ApprovalTier)
	n.Body = "May the plan run?\n\n" + strings.Repeat("1. restart of web: docker restart wäb\n", 150)
	p.send(n, target)
	n.Body += strings.Repeat("x", longestSlack)
	p.send(n, target)
	posts := s.Posts()
	if !slices.Equal(shown(posts[0]), []string{"Approve", "Deny"}) || strings.Count(posts[0].Text, "ä") != 150 {
		t.Errorf("%d blocks, %q", len(posts[0].Blocks), shown(posts[0]))
	}
	if !slices.Equal(shown(posts[1]), []string{"Deny"}) || !strings.HasSuffix(posts[1].Text, "The rest is on the page and in claudeops.") {
		t.Errorf("%q", shown(posts[1]))
	}
}

func TestErrorsOfSlackSayWhatToDoAndShowNoToken(t *testing.T) {
	p, s, target := slacked(t)
	for code, want := range map[string]string{
		"not_in_channel": "invite the app to the channel", "missing_scope": "chat:write", "account of " + phonetest.SlackBot: `"account of ***"`,
	} {
		s.Fail("chat.postMessage", code)
		_, err := NewSender(AppriseOptions{URLs: []string{target}}, p.native).Send(t.Context(), ops.Notice{Title: "x"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "xoxb-") {
			t.Errorf("error is %v", err)
		}
	}
	s.Close()
	_, err := NewSender(AppriseOptions{URLs: []string{target}}, p.native).Send(t.Context(), ops.Notice{Title: "x"})
	if err == nil || !strings.Contains(err.Error(), "reach Slack: ") || strings.Contains(err.Error(), "xoxb-") {
		t.Errorf("error is %v", err)
	}
}
