package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/failpoint"
	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

// ReplyStore knows the buttons that were sent, and how far the answers were read.
type ReplyStore interface {
	AnswerKey(ctx context.Context) ([]byte, error)
	AnswerToken(ctx context.Context, code string) (string, error)
	ReplyMark(ctx context.Context, channel string) (string, error)
}

// Desk carries out what people answer.
type Desk interface {
	Reply(ctx context.Context, r answer.Reply) (answer.Result, error)
}

// RepliesOptions are what reading answers needs.
type RepliesOptions struct {
	Native

	Store ReplyStore
	Desk  Desk
	// URLs are the targets of all routes.
	URLs   []string
	Clock  ops.Clock
	Logger *slog.Logger
}

// Replies reads the answers that people give with buttons. It asks the servers for them, so nothing of this host has to be reachable.
type Replies struct {
	RepliesOptions
	targets Targets
	refused limit
	told    limit
	// pause waits before another attempt; a test shortens it.
	pause func(ctx context.Context, d time.Duration)
}

const (
	// mostRefused is how many refused answers of an hour are recorded: nobody can fill the journal.
	mostRefused = 60
	// mostTold is how many of them get a reply.
	mostTold = 20

	betweenReads  = 250 * time.Millisecond
	shortestPause = 2 * time.Second
	longestPause  = 5 * time.Minute
	// healthyAfter is how long a connection must have lasted so that its end is not a failure.
	healthyAfter = time.Minute
)

// NewReplies makes a reader of answers.
func NewReplies(o RepliesOptions) *Replies {
	targets := ParseTargets(o.URLs)
	if !o.answeredByTelegram() {
		targets.Telegram = nil
	}
	return &Replies{
		RepliesOptions: o, targets: targets, refused: limit{most: mostRefused}, told: limit{most: mostTold},
		pause: func(ctx context.Context, d time.Duration) { ops.Pause(ctx, d) },
	}
}

// Needed reports whether a target has buttons.
func (r *Replies) Needed() bool { return r.targets.Native() > 0 }

// Run reads answers until ctx ends.
func (r *Replies) Run(ctx context.Context) error {
	var readers sync.WaitGroup
	for _, of := range grouped(r.targets.Telegram, func(a, b TelegramTarget) bool { return a.API == b.API && a.Token == b.Token }) {
		bot := botReader{Replies: r, bot: r.bot(of[0])}
		readers.Go(func() { r.keep(ctx, "Telegram", bot.poll) })
	}
	topics, err := r.topics(ctx)
	if err != nil {
		r.Logger.ErrorContext(ctx, "cannot read answers by ntfy", "error", err)
	}
	for _, topic := range topics {
		readers.Go(func() { r.keep(ctx, "ntfy", topic.read) })
	}
	readers.Wait()
	return nil
}

// grouped puts together what one reader reads.
func grouped[T any](all []T, same func(a, b T) bool) [][]T {
	var out [][]T
	for _, t := range all {
		i := slices.IndexFunc(out, func(o []T) bool { return same(o[0], t) })
		if i < 0 {
			i = len(out)
			out = append(out, nil)
		}
		out[i] = append(out[i], t)
	}
	return out
}

// topics are the topics at which answers arrive, each with the targets whose answers they are.
func (r *Replies) topics(ctx context.Context) ([]*topicReader, error) {
	if len(r.targets.Ntfy) == 0 {
		return nil, nil
	}
	key, err := r.Store.AnswerKey(ctx)
	if err != nil {
		return nil, err
	}
	var out []*topicReader
	same := func(a, b NtfyTarget) bool { return a.Base == b.Base && a.replyTopic(key) == b.replyTopic(key) }
	for _, of := range grouped(r.targets.Ntfy, same) {
		out = append(out, &topicReader{Replies: r, base: of[0].Base, topic: of[0].replyTopic(key), key: key, targets: of})
	}
	return out, nil
}

// keep calls read again and again until ctx ends, less often while it fails.
func (r *Replies) keep(ctx context.Context, channel string, read func(context.Context) error) {
	wait, last := shortestPause, ""
	for ctx.Err() == nil {
		begun := time.Now()
		err := read(ctx)
		lasted := time.Since(begun)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && lasted < betweenReads:
			r.pause(ctx, betweenReads) // a server that does not wait is not asked without end
			fallthrough
		case err == nil:
			wait, last = shortestPause, ""
			continue
		case lasted > healthyAfter: // a connection that worked has ended
			wait, last = shortestPause, err.Error()
		}
		if text := err.Error(); text != last {
			r.Logger.WarnContext(ctx, "cannot read answers; trying again", "channel", channel, "error", err)
			last = text
		}
		r.pause(ctx, wait)
		wait = min(2*wait, longestPause)
	}
}

// verify checks a token that came by a channel. It fills in what is known of the reply.
func (r *Replies) verify(key []byte, token string, reply *answer.Reply) {
	var err error
	reply.Token, err = answer.Verify(key, token, r.Clock())
	reply.Code = answer.Code(token)
	switch {
	case errors.Is(err, answer.ErrExpired):
		reply.Refused = "the answer came too late, the question or button has expired"
	case err != nil:
		reply.Refused = "the answer is not genuine"
	}
}

// take carries out a reply. It fails only if the database does; then the message is read again.
func (r *Replies) take(ctx context.Context, reply answer.Reply) (answer.Result, error) {
	if reply.Refused != "" && !reply.Silent {
		reply.Silent = !r.refused.take(r.Clock())
	}
	failpoint.Hit("reply.take.before")
	result, err := r.Desk.Reply(ctx, reply)
	if err != nil {
		return result, err
	}
	failpoint.Hit("reply.take.after")
	return result, nil
}

// limit counts what happens within an hour.
type limit struct {
	most int

	mu    sync.Mutex
	since time.Time
	count int
}

// take reports whether one more is within the limit.
func (l *limit) take(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= time.Hour || now.Before(l.since) {
		l.since, l.count = now, 0
	}
	l.count++
	return l.count <= l.most
}

// isWord reports whether a text from outside is a plain identifier, as codes and ids of messages are.
func isWord(text string) bool {
	const longest = 64
	return text != "" && len(text) <= longest &&
		strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// answerable is how long a button works if its question does not expire.
const answerable = 7 * 24 * time.Hour

// Subjects is where buttons come from.
type Subjects interface {
	NoticeSubject(ctx context.Context, n ops.Notice) (ops.NoticeSubject, error)
	NoticeThread(ctx context.Context, n ops.Notice) (ops.CycleID, error)
	AnswerKey(ctx context.Context) ([]byte, error)
	KeepAnswerCodes(ctx context.Context, tokens []string, code func(token string) string, expires time.Time) error
}

// button is an answer that a person can give to a notice.
type button struct {
	label  string
	token  answer.Token
	signed string
}

// buttonsOf returns the answers that fit a notice. A message of several notices has none.
func buttonsOf(n ops.Notice, s ops.NoticeSubject, recipient string) []button {
	var out []button
	add := func(label string, of answer.Subject, decision, plan string, expires time.Time) {
		out = append(out, button{label: label, token: answer.Token{
			Subject: of, Decision: decision, Plan: plan, Recipient: recipient, Expires: expires.UTC().Truncate(time.Second),
		}})
	}
	expires := n.CreatedAt.Add(answerable)
	asked := s.Approval != nil && (n.Kind.AsksPeople() || n.Kind == ops.NoticeReminder)
	if asked {
		until := expires
		if s.Approval.ExpiresAt != nil {
			until = *s.Approval.ExpiresAt
		}
		yes, no := "Approve", "Deny"
		if s.Approval.Kind == ops.ApprovalReview {
			yes, no = "Accept", "Reject"
		}
		of := answer.Subject{Kind: answer.KindApproval, ID: s.Approval.ID}
		add(yes, of, answer.Approve, s.Approval.PlanHash, until)
		add(no, of, answer.Deny, s.Approval.PlanHash, until)
	}
	if s.Reflex != nil {
		of := answer.Subject{Kind: answer.KindReflex, ID: s.Reflex.ID}
		add("Make it a reflex", of, answer.Approve, "", expires)
		add("No", of, answer.Deny, "", expires)
	}
	if n.Kind.AsksPeople() || !asksForCare(n.Kind) {
		return out
	}
	of, ok := openIncident(n, s)
	if !ok {
		return out
	}
	add("Acknowledge", of, answer.Acknowledge, "", expires)
	if !asked {
		add(fmt.Sprintf("Snooze %dh", int(answer.SnoozeFor.Hours())), of, answer.Snooze, "", expires)
	}
	return out
}

// signedButtons returns the answers that fit a notice, with their tokens signed by the key.
func signedButtons(ctx context.Context, s Subjects, n ops.Notice, recipient string) (out []button, key []byte, err error) {
	subject, err := s.NoticeSubject(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	if key, err = s.AnswerKey(ctx); err != nil {
		return nil, nil, err
	}
	out = buttonsOf(n, subject, recipient)
	for i := range out {
		out[i].signed = answer.Sign(key, out[i].token)
	}
	return out, key, nil
}

// asksForCare reports whether a notice of this kind is about an incident that somebody should take care of.
func asksForCare(kind ops.NoticeKind) bool {
	switch kind {
	case ops.NoticeNeedsHuman, ops.NoticeAlert, ops.NoticeReminder, ops.NoticeBlocked, ops.NoticeFailed, ops.NoticePartial, ops.NoticeLeftDown,
		ops.NoticeBudget:
		return true
	case ops.NoticeOpened, ops.NoticeAction, ops.NoticeEscalated, ops.NoticeApproval, ops.NoticeReview, ops.NoticeBrake, ops.NoticeResolved,
		ops.NoticeDeadman, ops.NoticeHost, ops.NoticeTrust, ops.NoticeTest:
	}
	return false
}

// openIncident is what a button acknowledges: one incident, or all that the cycle of the notice reported.
func openIncident(n ops.Notice, s ops.NoticeSubject) (of answer.Subject, ok bool) {
	open := 0
	for _, i := range s.Incidents {
		if i.Status == ops.IncidentOpen {
			open++
			of = answer.Subject{Kind: answer.KindIncident, ID: i.ID}
		}
	}
	switch {
	case open == 0:
		return of, false
	case len(s.Incidents) > 1:
		of = answer.Subject{Kind: answer.KindCycle, ID: int64(*n.CycleID)}
	}
	return of, true
}

// AnswerLinks returns the links with which people answer a notice on a page, for targets that have no buttons. Each is signed, works once,
// and is bound to the plan that the notice shows and to the name of its route.
func AnswerLinks(ctx context.Context, s Subjects, base, route string, n ops.Notice) ([]ops.AnswerLink, error) {
	buttons, _, err := signedButtons(ctx, s, n, answer.LinkRecipient(route))
	if err != nil {
		return nil, err
	}
	var out []ops.AnswerLink
	for _, b := range buttons {
		label := b.label
		if b.token.Decision == answer.Approve {
			label += " (asks you to sign in)"
		}
		out = append(out, ops.AnswerLink{Label: label, Address: base + answer.LinkPath + b.signed})
	}
	return out, nil
}

// withAnswers adds the links to the end of a notice. The brackets keep targets that render Markdown from taking a part of an address for
// emphasis.
func withAnswers(n ops.Notice) ops.Notice {
	if len(n.Answers) == 0 {
		return n
	}
	var b strings.Builder
	b.WriteString(strings.TrimRight(n.Body, "\n"))
	for _, a := range n.Answers {
		fmt.Fprintf(&b, "\n- %s: <%s>", a.Label, a.Address)
	}
	n.Body = b.String() + "\n"
	return n
}
