package main_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
	"claudeops/test/pgtest"
	"claudeops/test/phonetest"
	"claudeops/test/testtoken"
)

// slacked is a box whose notices go to a channel, where ada may answer and bea may not approve.
func slacked(t *testing.T, env ...string) (*box, *phonetest.Slack) {
	t.Helper()
	slack := phonetest.NewSlack(t)
	return gated(t, append([]string{"CLAUDEOPS_APPRISE_URLS=" + slack.Target("C0OPS", "&senders=U0ADA&responders=U0BEA"), testtoken.Env}, env...)...), slack
}

// inChannel waits for a message whose text has a part.
func (d *daemon) inChannel(slack *phonetest.Slack, part string) (m phonetest.Post) {
	d.t.Helper()
	d.until("the channel shows "+part, func() bool {
		all := slack.Posts()
		i := slices.IndexFunc(all, func(p phonetest.Post) bool { return strings.Contains(p.Text, part) && len(p.Buttons) > 0 })
		if i >= 0 {
			m = all[i]
		}
		return i >= 0
	})
	return m
}

func TestSlack_ApproveInAChannel(t *testing.T) {
	t.Parallel()
	b, slack := slacked(t)
	d := b.ready()
	m := d.inChannel(slack, "Your approval is needed")
	contains(t, "the question", m.Text, "May Tier 3 start?", "- May do: Tier 3: ", "- Answer: ")
	d.until("the connection is open", func() bool { now, _, _ := slack.Connections(); return now == 1 })
	slack.Press(t, m, "Approve", "U0EVE", "eve")
	slack.Press(t, m, "Approve", "U0BEA", "bea")
	d.until("both are refused", func() bool { return len(slack.Whispers()) == 2 })
	// Slack asks for a new connection, and the answer comes by it.
	slack.Disconnect("refresh_requested")
	d.until("there is a new connection", func() bool { now, _, opened := slack.Connections(); return now == 1 && opened == 2 })
	slack.Press(t, m, "Approve", "U0ADA", "ada")
	d.until("the cycle ends", func() bool { return b.load(1).Cycle.Status.Ended() })
	c := b.load(1)
	if c.Cycle.Status != ops.CycleResolved || len(c.Journal.Sessions) != 3 || c.Journal.Approvals[0].AnsweredBy != "@ada (Slack U0ADA)" {
		t.Errorf("%s with %d sessions, approved by %s", c.Cycle.Status, len(c.Journal.Sessions), c.Journal.Approvals[0].AnsweredBy)
	}
	d.until("the end is told in the thread", func() bool {
		return slices.ContainsFunc(slack.Posts(), func(p phonetest.Post) bool { return p.Thread != "" && strings.Contains(p.Text, "asked: may Tier 3") })
	})
	root, first := slack.Posts()[0], 0
	for _, p := range slack.Posts() {
		if p.Thread == "" {
			first++
		} else if p.Thread != root.ID {
			t.Errorf("in another thread: %+v", p)
		}
	}
	if first != 1 || root.Updates == 0 || len(root.Buttons) != 0 {
		t.Errorf("%d first messages; %+v", first, root)
	}
	contains(t, "the first message", root.Text, m.Text, "@ada (Slack U0ADA): Approved (approval 1)")
	slack.Repeat()
	d.until("everything is acknowledged again", func() bool { return slack.Waiting() == 0 })
	audits := b.audits()
	contains(t, "the audit", audits, "@eve (Slack U0EVE) by Slack was refused", "@bea (Slack U0BEA) by Slack to approve approval 1", "@ada (Slack U0ADA) used a button by Slack to approve approval 1")
	if rows := strings.Count(audits, "by Slack"); rows != 3 {
		t.Errorf("%d rows:\n%s", rows, audits)
	}
	if out := b.run("incidents", "show", "1"); !strings.Contains(out.stdout, "Told: Slack channel C0OPS, by the default route") {
		t.Errorf("incidents show does not say who was told:\n%s", out.stdout)
	}
	for what, text := range map[string]string{"config show": b.run("config", "show").stdout, "the log": d.log.String()} {
		for _, secret := range []string{phonetest.SlackApp, phonetest.SlackBot, "secret-ticket"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %s", what, secret)
			}
		}
	}
}

// Since the question was asked, the operator has turned the dry run on or begun maintenance, or somebody has answered on the page.
func TestSlack_WhatChangedSinceTheQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env      string
		yaml     string
		want     ops.CycleStatus
		sessions int
	}{
		"dry run":     {"CLAUDEOPS_DRY_RUN=true", "{}", ops.CycleSuppressed, 2},
		"maintenance": {"CLAUDEOPS_DRY_RUN=false", maintenanceNow(), ops.CycleResolved, 3}, // who approves then, decides it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, slack := slacked(t)
			d := b.ready()
			m := d.inChannel(slack, "Your approval is needed")
			if code := d.stop(); code != 0 {
				t.Errorf("exit %d", code)
			}
			d = b.configured(c.yaml).ready(c.env)
			slack.Press(t, m, "Approve", "U0ADA", "ada")
			d.until("the cycle ends", func() bool { return b.load(1).Cycle.Status.Ended() })
			if got := b.load(1); got.Cycle.Status != c.want || len(got.Journal.Sessions) != c.sessions || got.Journal.Approvals[0].AnsweredBy != "@ada (Slack U0ADA)" {
				t.Errorf("%s (%s) with %d sessions", got.Cycle.Status, got.Cycle.Reason, len(got.Journal.Sessions))
			}
			if c.want != ops.CycleResolved {
				d.until("ada hears that it does not start", func() bool {
					return slices.ContainsFunc(slack.Posts(), func(p phonetest.Post) bool { return strings.Contains(p.Text, "The approved repair does not start") })
				})
			}
		})
	}
	t.Run("answered on the page", func(t *testing.T) {
		t.Parallel()
		b, slack := slacked(t)
		d := b.ready()
		m := d.inChannel(slack, "Your approval is needed")
		if status, answer := d.post("/api/v1/approvals/1/deny", map[string]any{"reason": "not now"}); status != http.StatusOK {
			t.Fatalf("deny answers %d: %v", status, answer)
		}
		slack.Press(t, m, "Approve", "U0ADA", "ada")
		d.until("the press is answered", func() bool { return len(slack.Whispers()) == 1 })
		contains(t, "the answer", slack.Whispers()[0].Text, "denied Tier 3")
		d.until("the cycle ends", func() bool { return b.load(1).Cycle.Status.Ended() })
		if c := b.load(1); c.Cycle.Status != ops.CycleBlocked || len(c.Journal.Sessions) != 2 {
			t.Errorf("%s with %d sessions", c.Cycle.Status, len(c.Journal.Sessions))
		}
	})
}

// A supervisor that is killed between the press and its record, after the record, or between a message and its record, acts once, and tells
// each problem in one thread.
func TestSlack_AKillLosesNoAnswerAndRepeatsNone(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"reply.take.before", "reply.take.after", "outbox.send.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b, slack := slacked(t)
			d := b.serve(fmt.Sprintf("CLAUDEOPS_FAILPOINT=%s:1", point))
			if point != "outbox.send.after" {
				slack.Press(t, d.inChannel(slack, "Your approval is needed"), "Deny", "U0BEA", "bea")
			}
			<-d.done
			d.done <- nil
			again := b.ready()
			if point == "outbox.send.after" {
				slack.Press(t, again.inChannel(slack, "Your approval is needed"), "Deny", "U0BEA", "bea")
			} else if answered := b.approval().Status == ops.ApprovalDenied; !answered && point == "reply.take.after" {
				t.Errorf("after the kill the question is %s", b.approval().Status)
			}
			again.until("the first cycle ends", func() bool { return b.load(1).Cycle.Status.Ended() })
			again.until("the answer is acknowledged", func() bool { return slack.Waiting() == 0 })
			c := b.load(1)
			if a := c.Journal.Approvals; len(a) != 1 || a[0].Status != ops.ApprovalDenied || c.Cycle.Status != ops.CycleBlocked || len(c.Journal.Sessions) != 2 {
				t.Errorf("%s with %d sessions, approvals %+v", c.Cycle.Status, len(c.Journal.Sessions), a)
			}
			if rows := strings.Count(b.audits(), "used a button by Slack"); rows != 1 {
				t.Errorf("%d rows:\n%s", rows, b.audits())
			}
			for _, p := range slack.Posts()[1:] {
				if p.Thread != slack.Posts()[0].ID {
					t.Errorf("a second thread: %+v", p)
				}
			}
		})
	}
}

// Of several hosts one has the connection. If it dies, another one opens its own.
func TestSlack_OneOfSeveralHostsReadsTheAnswers(t *testing.T) {
	t.Parallel()
	slack := phonetest.NewSlack(t)
	boxes := hosts(t, pgtest.URL(t), plays(agenttest.Escalates(1, 0.03, "jellyfin"), tier(2, agenttest.Healthy(0.3))), "a", "b")
	for _, b := range boxes {
		b.env = append(b.env, "CLAUDEOPS_APPROVAL_TIER=2", "CLAUDEOPS_APPRISE_URLS="+slack.Target("C0OPS", "&senders=U0ADA"))
	}
	reads := boxes[0].ready()
	reads.until("the first host is connected", func() bool { now, _, _ := slack.Connections(); return now == 1 })
	lives := boxes[1].ready()
	m := reads.inChannel(slack, "Your approval is needed")
	slack.Press(t, m, "Approve", "U0EVE", "eve")
	reads.until("it is acknowledged", func() bool { return slack.Waiting() == 0 })
	must(t, reads.cmd.Process.Kill())
	slack.Press(t, m, "Approve", "U0ADA", "ada")
	lives.until("the cycle ends", func() bool { return lives.cycle().Cycle.Status.Ended() })
	lives.finishedOnce(ops.CycleResolved)
	if _, most, _ := slack.Connections(); most != 1 {
		t.Errorf("%d hosts are connected at once", most)
	}
	if rows := strings.Count(lives.audits(), "by Slack"); rows != 2 {
		t.Errorf("audit:\n%s", lives.audits())
	}
}
