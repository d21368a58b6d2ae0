package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/pgtest"
	"claudeops/test/phonetest"
	"claudeops/test/testtoken"
)

// phoned is a box whose notices go to phones, and the servers between.
func phoned(t *testing.T, env ...string) (*box, *phonetest.Telegram, *phonetest.Ntfy) {
	t.Helper()
	telegram, ntfy := phonetest.NewTelegram(t), phonetest.NewNtfy(t)
	b := gated(t, append([]string{
		"CLAUDEOPS_TELEGRAM_SENDERS=42",
		"CLAUDEOPS_APPRISE_URLS=" + telegram.Target("42") + " " + ntfy.Target("homelab"), testtoken.Env,
	}, env...)...)
	return b, telegram, ntfy
}

// question is the message that asks.
func question(telegram *phonetest.Telegram) (phonetest.Message, bool) {
	all := telegram.Messages()
	i := slices.IndexFunc(all, func(m phonetest.Message) bool { return strings.Contains(m.Text, "Your approval is needed") })
	if i < 0 {
		return phonetest.Message{}, false
	}
	return all[i], true
}

// onPhones waits until the question has arrived on the phones.
func (d *daemon) onPhones(telegram *phonetest.Telegram, ntfy *phonetest.Ntfy) (phonetest.Message, phonetest.Note) {
	d.t.Helper()
	var m phonetest.Message
	d.until("the question is on the phones", func() bool {
		var ok bool
		m, ok = question(telegram)
		return ok && len(ntfy.Notes("homelab")) > 0
	})
	return m, ntfy.Notes("homelab")[0]
}

func TestPhone_ApproveByTelegram(t *testing.T) {
	t.Parallel()
	b, telegram, ntfy := phoned(t)
	d := b.ready()
	m, note := d.onPhones(telegram, ntfy)
	first, _, _ := strings.Cut(strings.SplitN(m.Text, "\n\n", 2)[1], "\n")
	if len([]rune(first)) > 80 || !strings.Contains(first, "May Tier 3 start?") {
		t.Errorf("the question begins %q", first)
	}
	contains(t, "the question", m.Text, "- May do: Tier 3: ", "- Cost so far: ", "- Answer: ")
	if strings.ContainsAny(m.Text, "{}") {
		t.Errorf("JSON in %s", m.Text)
	}
	if len(note.Actions) != 1 || note.Actions[0].Label != "Deny" { // the pages have no public address
		t.Errorf("ntfy shows %+v", note.Actions)
	}
	telegram.Press(t, m, "Approve", 666, "mallory")
	telegram.Press(t, m, "Approve", 42, "alice")
	d.until("the cycle ends", func() bool { return b.load(1).Cycle.Status.Ended() })
	c := b.load(1)
	if c.Cycle.Status != ops.CycleResolved || len(c.Journal.Sessions) != 3 || c.Journal.Approvals[0].AnsweredBy != "@alice (Telegram 42)" {
		t.Errorf("%s with %d sessions, approved by %s", c.Cycle.Status, len(c.Journal.Sessions), c.Journal.Approvals[0].AnsweredBy)
	}
	d.until("the end tells its story", func() bool {
		return slices.ContainsFunc(telegram.Messages(), func(m phonetest.Message) bool {
			return strings.Contains(m.Text, "detected: ") && strings.Contains(m.Text, "asked: May Tier 3 start?")
		})
	})
	if out := b.run("incidents", "show", "1"); !strings.Contains(out.stdout, "Told: Telegram chat 42, by the default route") {
		t.Errorf("incidents show does not say who was told:\n%s", out.stdout)
	}
	contains(t, "the audit", b.audits(), "@mallory (Telegram 666) by Telegram was refused", "@alice (Telegram 42) used a button by Telegram to approve approval 1")
	d.until("the message shows the answer", func() bool { m, _ := question(telegram); return m.Edited })
	// What is pressed afterwards, on another phone, says what was answered.
	ntfy.Press(t, note, "Deny")
	d.until("the late answer is told", func() bool {
		return slices.ContainsFunc(ntfy.Notes("homelab"), func(n phonetest.Note) bool {
			return strings.Contains(n.Message, "@alice (Telegram 42) approved Tier 3")
		})
	})
	if _, most := telegram.Polls(); most != 1 {
		t.Errorf("%d polls at once", most)
	}
	for what, text := range map[string]string{"config show": b.run("config", "show").stdout, "the log": d.log.String()} {
		if strings.Contains(text, phonetest.Bot) {
			t.Errorf("%s has the token of the bot", what)
		}
	}
}

// A supervisor that is killed between the delivery of an answer and its record, or after the record, acts on it exactly once.
func TestPhone_AKillLosesNoAnswerAndRepeatsNone(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"reply.take.before", "reply.take.after"} {
		for _, channel := range []string{"Telegram", "ntfy"} {
			t.Run(point+" "+channel, func(t *testing.T) {
				t.Parallel()
				b, telegram, ntfy := phoned(t)
				d := b.ready(fmt.Sprintf("CLAUDEOPS_FAILPOINT=%s:1", point))
				m, note := d.onPhones(telegram, ntfy)
				if channel == "Telegram" {
					telegram.Press(t, m, "Deny", 42, "alice")
				} else {
					ntfy.Press(t, note, "Deny")
				}
				<-d.done
				d.done <- nil
				answered := b.approval().Status == ops.ApprovalDenied
				if answered != (point == "reply.take.after") {
					t.Errorf("after the kill the question is %s", b.approval().Status)
				}
				again := b.ready()
				again.until("the first cycle ends", func() bool { return b.load(1).Cycle.Status.Ended() })
				c := b.load(1)
				if a := c.Journal.Approvals; len(a) != 1 || a[0].Status != ops.ApprovalDenied || c.Cycle.Status != ops.CycleBlocked || len(c.Journal.Sessions) != 2 {
					t.Errorf("%s with %d sessions, approvals %+v", c.Cycle.Status, len(c.Journal.Sessions), a)
				}
				again.until("the answer is confirmed", func() bool { return telegram.Waiting() == 0 })
				if rows := strings.Count(b.audits(), "used a button by "+channel); rows != 1 {
					t.Errorf("%d rows:\n%s", rows, b.audits())
				}
				var asked int
				b.read(func(s *store.Store) {
					events, err := s.Journal.Events(t.Context(), store.EventFilter{Kind: string(ops.EventApproval), Limit: 50})
					if err != nil {
						t.Error(err)
					}
					asked = len(slices.DeleteFunc(events, func(e ops.Event) bool { return !strings.Contains(e.Message.Words(), "denied Tier 3") }))
				})
				if asked != 1 {
					t.Errorf("%d answers are recorded", asked)
				}
			})
		}
	}
}

// A supervisor that is killed between a message and its record sends it again, and acts once on the answer.
func TestPhone_AKillAfterAMessageLosesNoAnswer(t *testing.T) {
	t.Parallel()
	b, telegram, ntfy := phoned(t)
	d := b.serve("CLAUDEOPS_FAILPOINT=outbox.send.after:1")
	<-d.done
	d.done <- nil
	again := b.ready()
	m, _ := again.onPhones(telegram, ntfy)
	telegram.Press(t, m, "Deny", 42, "alice")
	again.until("the first cycle ends", func() bool { return b.load(1).Cycle.Status.Ended() })
	if c := b.load(1); c.Cycle.Status != ops.CycleBlocked || len(c.Journal.Sessions) != 2 || len(c.Journal.Approvals) != 1 {
		t.Errorf("%s with %d sessions, approvals %+v", c.Cycle.Status, len(c.Journal.Sessions), c.Journal.Approvals)
	}
	if rows := strings.Count(b.audits(), "used a button by Telegram"); rows != 1 {
		t.Errorf("%d rows:\n%s", rows, b.audits())
	}
}

// Of several hosts one reads the answers. If it dies, another one continues where it was.
func TestPhone_OneOfSeveralHostsReadsTheAnswers(t *testing.T) {
	t.Parallel()
	telegram := phonetest.NewTelegram(t)
	boxes := hosts(t, pgtest.URL(t), plays(agenttest.Escalates(1, 0.03, "jellyfin"), tier(2, agenttest.Healthy(0.3))), "a", "b")
	for _, b := range boxes {
		b.env = append(b.env, "CLAUDEOPS_APPROVAL_TIER=2", "CLAUDEOPS_APPRISE_URLS="+telegram.Target("42"),
			"CLAUDEOPS_TELEGRAM_SENDERS=42")
	}
	reads := boxes[0].ready()
	reads.until("the first host reads", func() bool { now, _ := telegram.Polls(); return now == 1 })
	lives := boxes[1].ready()
	var m phonetest.Message
	reads.until("the question arrives", func() bool {
		var ok bool
		m, ok = question(telegram)
		return ok
	})
	telegram.Say(666, "mallory", "hello")
	reads.until("it is read and confirmed", func() bool { return telegram.Waiting() == 0 })
	must(t, reads.cmd.Process.Kill())
	telegram.Press(t, m, "Approve", 42, "alice")
	lives.until("the cycle ends", func() bool { return lives.cycle().Cycle.Status.Ended() })
	lives.finishedOnce(ops.CycleResolved)
	if _, most := telegram.Polls(); most != 1 {
		t.Errorf("%d hosts read at once", most)
	}
	if rows := strings.Count(lives.audits(), "by Telegram"); rows != 2 {
		t.Errorf("audit:\n%s", lives.audits())
	}
}

// gated is a box whose Tier 3 needs a human.
func gated(t *testing.T, env ...string) *box {
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, agenttest.Claims(0.1, "web")))
	return climbing(t, plays, append([]string{"CLAUDEOPS_APPROVAL_TIER=3"}, env...)...)
}
