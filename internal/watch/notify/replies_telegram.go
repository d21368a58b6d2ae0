package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

const (
	// pollFor is how long Telegram keeps a request open while there is no answer.
	pollFor = 50 * time.Second
	// mostUpdates are read at once: the longest ones fit into maxReply.
	mostUpdates = 20
	// longestPopup is what Telegram shows after the press of a button.
	longestPopup = 200
)

// botReader reads what people send to one bot.
type botReader struct {
	*Replies
	bot telegramBot
}

// mark names how far the messages of the bot were read. The number of a bot is not a secret.
func (b botReader) mark() string { return "telegram/" + TelegramTarget{Token: b.bot.token}.bot() }

// poll waits for messages and takes them. Telegram sends each one again until a later request confirms it, which happens only after it
// was recorded.
func (b botReader) poll(ctx context.Context) error {
	mark, err := b.Store.ReplyMark(ctx, b.mark())
	if err != nil {
		return err
	}
	in := struct {
		Offset  int64    `json:"offset,omitempty"`
		Limit   int      `json:"limit"`
		Timeout int      `json:"timeout"`
		Allowed []string `json:"allowed_updates"`
	}{Limit: mostUpdates, Timeout: int(pollFor.Seconds()), Allowed: []string{"message", "callback_query"}}
	if in.Offset, err = strconv.ParseInt(mark, 10, 64); err != nil && mark != "" {
		return fmt.Errorf("read mark of replies: %w", err)
	}
	call, cancel := context.WithTimeoutCause(ctx, pollFor+sendTimeout, errors.New("no answer in time"))
	defer cancel()
	var updates []telegramUpdate
	if err := b.bot.call(call, "getUpdates", in, &updates); err != nil {
		return err
	}
	for _, u := range updates {
		if err := b.update(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// update takes one message or press of a button.
func (b botReader) update(ctx context.Context, u telegramUpdate) error {
	reply := answer.Reply{
		Channel: "Telegram", Source: fmt.Sprintf("%s/%d", b.mark(), u.ID), Mark: b.mark(), Read: strconv.FormatInt(u.ID+1, 10),
	}
	if u.Callback != nil {
		return b.pressed(ctx, reply, *u.Callback)
	}
	reply.Refused, reply.Silent, reply.By = "it is not an answer", true, "Telegram"
	known := false
	if m := u.Message; m != nil && m.From != nil {
		reply.By = m.From.name()
		if known, _ = b.rights(m.From.ID); !known {
			reply.Refused, reply.Silent = strangerToTelegram, false
		}
	}
	if _, err := b.take(ctx, reply); err != nil {
		return err
	}
	if known {
		b.tell(ctx, "sendMessage", map[string]any{"chat_id": u.Message.Chat.ID, "text": "Use the buttons below a notice."})
	}
	return nil
}

// strangerToTelegram is why the answer of somebody who has no rights is refused.
const strangerToTelegram = "the sender is not one of notify.telegram_senders or notify.telegram_responders"

// rights are what a person may do with buttons.
func (b botReader) rights(sender int64) (mayAnswer, mayApprove bool) {
	mayApprove = slices.Contains(b.TelegramSenders, sender)
	return mayApprove || slices.Contains(b.TelegramResponders, sender), mayApprove
}

func (b botReader) pressed(ctx context.Context, reply answer.Reply, c telegramCallback) error {
	reply.By = c.From.name()
	mayAnswer, mayApprove := b.rights(c.From.ID)
	if !mayAnswer {
		reply.Refused = strangerToTelegram
	} else if err := b.check(ctx, &reply, c, mayApprove); err != nil {
		return err
	}
	result, err := b.take(ctx, reply)
	if err != nil {
		return err
	}
	if result.Repeated || !mayAnswer && !b.told.take(b.Clock()) {
		return nil // strangers cannot make the bot talk without end
	}
	b.tell(ctx, "answerCallbackQuery", map[string]any{
		"callback_query_id": c.ID, "text": ops.OneLine(result.Text, longestPopup), "show_alert": !result.Done,
	})
	if m := c.Message; m != nil && m.Text != "" && reply.Refused == "" {
		text, _ := fit(fmt.Sprintf("%s\n\n%s: %s", m.Text, reply.By, result.Text), longestTelegram)
		// Without a keyboard the buttons are gone.
		b.tell(ctx, "editMessageText", map[string]any{"chat_id": m.Chat.ID, "message_id": m.ID, "text": text})
	}
	return nil
}

// check finds out what a button stands for, and whether the person may use it in this chat. It fails only if the database does.
func (b botReader) check(ctx context.Context, reply *answer.Reply, c telegramCallback, mayApprove bool) error {
	reply.Refused = "the button is unknown or too old"
	if !isWord(c.Data) {
		return nil
	}
	token, err := b.Store.AnswerToken(ctx, c.Data)
	if errors.Is(err, ops.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	key, err := b.Store.AnswerKey(ctx)
	if err != nil {
		return err
	}
	reply.Refused = ""
	b.verify(key, token, reply)
	switch {
	case reply.Refused != "":
	case c.Message == nil || !c.Message.Chat.is(reply.Token.Recipient):
		reply.Refused = "the button was sent to another chat"
	case reply.Token.Decision == answer.Approve && !mayApprove:
		reply.Refused = "this sender may acknowledge, snooze and deny, but not approve; ask one of notify.telegram_senders"
	}
	return nil
}

// tell calls a method whose failure only means that a person sees the result later, on the page.
func (b botReader) tell(ctx context.Context, method string, in any) {
	ctx, cancel := limited(ctx)
	defer cancel()
	if err := b.bot.call(ctx, method, in, nil); err != nil {
		b.Logger.DebugContext(ctx, "cannot reply by Telegram", "method", method, "error", err)
	}
}
