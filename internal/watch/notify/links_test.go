package notify

import (
	"context"
	"strings"
	"testing"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

// fixedSubject is a notice about one approval and one incident.
type fixedSubject struct{ subject ops.NoticeSubject }

func (f fixedSubject) NoticeSubject(context.Context, ops.Notice) (ops.NoticeSubject, error) {
	return f.subject, nil
}

func (fixedSubject) NoticeThread(context.Context, ops.Notice) (ops.CycleID, error) { return 0, nil }

func (f fixedSubject) AnswerKey(context.Context) ([]byte, error) {
	return []byte(strings.Repeat("k", 32)), nil
}

func (f fixedSubject) KeepAnswerCodes(context.Context, []string, func(string) string, time.Time) error {
	return nil
}

func TestANoticeForAppriseHasLinksThatAnswerIt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cycle := ops.CycleID(3)
	expires := now.Add(time.Hour)
	asked := fixedSubject{ops.NoticeSubject{Approval: &ops.Approval{ID: 7, PlanHash: "hash", ExpiresAt: &expires}}}
	n := ops.Notice{CycleID: &cycle, Kind: ops.NoticeApproval, CreatedAt: now, Body: "A question.\n\n- Expires: soon\n"}
	links, err := AnswerLinks(t.Context(), asked, "https://ops.example.org", "route mail", n)
	if err != nil || len(links) != 2 || links[1].Label != "Deny" || !strings.Contains(links[0].Label, "sign in") {
		t.Fatalf("%+v, %v", links, err)
	}
	key, _ := asked.AnswerKey(t.Context())
	text, ok := strings.CutPrefix(links[1].Address, "https://ops.example.org"+answer.LinkPath)
	token, err := answer.Verify(key, text, now)
	want := answer.Token{
		Subject: answer.Subject{Kind: answer.KindApproval, ID: 7}, Decision: answer.Deny, Plan: "hash", Recipient: answer.LinkRecipient("route mail"), Expires: expires,
	}
	if !ok || err != nil || token != want {
		t.Errorf("%+v, %v", token, err)
	}
	n.Answers = links
	body := messageOf(withAnswers(n)).Body
	if !strings.HasPrefix(body, "A question.\n") || !strings.HasSuffix(body, "\n- Deny: <"+links[1].Address+">\n") {
		t.Errorf("sent %q", body)
	}
	earned := fixedSubject{ops.NoticeSubject{Reflex: &ops.Earned{Reflex: ops.Reflex{ID: 5}}}}
	links, err = AnswerLinks(t.Context(), earned, "https://ops.example.org", "route mail", ops.Notice{CycleID: &cycle, Kind: ops.NoticeTrust, CreatedAt: now})
	if err != nil || len(links) != 2 || links[0].Label != "Make it a reflex (asks you to sign in)" || links[1].Label != "No" {
		t.Errorf("about a reflex: %+v, %v", links, err)
	}
	n.Kind = ops.NoticeResolved
	if links, err := AnswerLinks(t.Context(), asked, "https://ops.example.org", "first", n); err != nil || len(links) != 0 {
		t.Errorf("a notice that asks nothing: %+v, %v", links, err)
	}
}
