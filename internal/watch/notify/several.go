package notify

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"claudeops/internal/ops"
)

// Native says how ntfy and Telegram are used.
type Native struct {
	HTTPClient *http.Client
	// Answers makes the buttons; nil sends none.
	Answers Subjects
	// TelegramAPI is the server of the bots; empty: the public one.
	TelegramAPI string
	// TelegramSenders may answer by Telegram, TelegramResponders may only acknowledge, snooze and deny. If there are neither, its
	// messages have no buttons.
	TelegramSenders, TelegramResponders []int64
	// ApproveByNtfy lets a button of ntfy approve.
	ApproveByNtfy bool
}

func (n Native) bot(token string) telegramBot {
	api := n.TelegramAPI
	if api == "" {
		api = TelegramAPI
	}
	return telegramBot{api: api, token: token, client: newClient(n.HTTPClient)}
}

func (n Native) ntfy(t NtfyTarget) ntfy {
	return ntfy{target: t, client: newClient(n.HTTPClient), answers: n.Answers, approve: n.ApproveByNtfy}
}

func (n Native) telegram(t TelegramTarget) telegram {
	s := telegram{target: t, bot: n.bot(t.Token), answers: n.Answers}
	if !n.answeredByTelegram() {
		s.answers = nil
	}
	return s
}

// answeredByTelegram reports whether anybody may answer by Telegram.
func (n Native) answeredByTelegram() bool {
	return len(n.TelegramSenders)+len(n.TelegramResponders) > 0
}

// Several sends each notice to several targets. What has reached a target is not sent to it again when another target failed.
type Several struct {
	parts []Sender

	mu   sync.Mutex
	sent map[int64]map[int]bool // by notice: the parts that have it
}

// mostRemembered is how many half-sent notices are remembered.
const mostRemembered = 500

// NewSender sends to ntfy and Telegram itself, and to all other targets through Apprise.
func NewSender(a AppriseOptions, n Native) *Several {
	s := &Several{sent: map[int64]map[int]bool{}}
	targets := ParseTargets(a.URLs)
	for _, t := range targets.Ntfy {
		s.parts = append(s.parts, n.ntfy(t))
	}
	for _, t := range targets.Telegram {
		s.parts = append(s.parts, n.telegram(t))
	}
	// Without URLs an Apprise API server has targets of its own.
	if len(targets.Apprise) > 0 || targets.Native() == 0 {
		a.URLs = targets.Apprise
		s.parts = append(s.parts, New(a))
	}
	return s
}

// Send delivers a notice to every target that does not have it yet.
func (s *Several) Send(ctx context.Context, n ops.Notice) error {
	var failed error
	for i, part := range s.parts {
		if s.has(n.ID, i) {
			continue
		}
		err := part.Send(ctx, n)
		switch {
		case err == nil:
			s.note(n.ID, i)
		case failed == nil:
			failed = err
		default:
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}
	if failed == nil {
		s.forget(n.ID)
	}
	return failed
}

func (s *Several) has(id int64, part int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[id][part]
}

func (s *Several) note(id int64, part int) {
	if id == 0 || len(s.parts) == 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) >= mostRemembered && s.sent[id] == nil {
		clear(s.sent) // a target that failed so often gets a few notices twice
	}
	if s.sent[id] == nil {
		s.sent[id] = map[int]bool{}
	}
	s.sent[id][part] = true
}

func (s *Several) forget(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sent, id)
}
