package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

// publicTelegram is the server of the bots, where a target names no other.
const publicTelegram = "https://api.telegram.org"

const longestTelegram = 4000 // of a text; Telegram counts UTF-16 units and takes 4096

// telegramBot calls the methods of a bot.
type telegramBot struct {
	api    string
	token  string
	client *http.Client
}

// errTelegramConflict means that another program reads the messages of the bot.
var errTelegramConflict = errors.New("another program reads the messages of this bot")

// call calls a method and reads its result.
func (b telegramBot) call(ctx context.Context, method string, in, out any) error {
	status, body, err := postJSON(ctx, b.client, b.api+"/bot"+b.token+"/"+method, nil, in)
	if err != nil {
		return fmt.Errorf("reach Telegram: %w", err)
	}
	var said struct {
		OK          bool            `json:"ok"`
		Description string          `json:"description"`
		Result      json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return fmt.Errorf("the Telegram API answered HTTP %d without JSON", status)
	}
	if !said.OK {
		text := ops.OneLine(strings.ReplaceAll(said.Description, b.token, "***"), longestReason)
		if status == http.StatusConflict {
			return fmt.Errorf("%w: %s", errTelegramConflict, text)
		}
		return fmt.Errorf("the Telegram API answered HTTP %d: %s", status, text)
	}
	if out == nil {
		return nil
	}
	return ops.Wrapped(json.Unmarshal(said.Result, out), "read answer of the Telegram API")
}

// telegram sends to one chat.
type telegram struct {
	target TelegramTarget
	bot    telegramBot
	// answers makes the buttons; nil sends none.
	answers Subjects
}

type telegramMessage struct {
	ChatID   any             `json:"chat_id"`
	Thread   int64           `json:"message_thread_id,omitempty"`
	Text     string          `json:"text"`
	Silent   bool            `json:"disable_notification,omitempty"`
	Preview  map[string]bool `json:"link_preview_options"`
	Keyboard map[string]any  `json:"reply_markup,omitempty"`
}

type telegramButton struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// Send sends a notice as plain text: nothing in it is taken for formatting. The link is in the text, because Telegram refuses a message
// with a button for an address that it does not like.
func (s telegram) Send(ctx context.Context, n ops.Notice) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	text := messageOf(n)
	whole := text.Title
	if body := strings.TrimSpace(text.Body); body != text.Title {
		whole += "\n\n" + body
	}
	shown, complete := fit(whole, longestTelegram)
	row, err := s.buttons(ctx, n, complete)
	if err != nil {
		return err
	}
	var keyboard map[string]any
	if len(row) > 0 {
		keyboard = map[string]any{"inline_keyboard": [][]telegramButton{row}}
	}
	return s.bot.call(ctx, "sendMessage", telegramMessage{
		ChatID: s.target.Chat, Thread: s.target.Thread, Text: shown, Silent: s.target.Silent, Preview: map[string]bool{"is_disabled": true},
		Keyboard: keyboard,
	}, nil)
}

// buttons makes the buttons of a message, and stores their tokens under the codes that they carry: a button has no room for more.
func (s telegram) buttons(ctx context.Context, n ops.Notice, complete bool) (out []telegramButton, err error) {
	if s.answers == nil {
		return nil, nil
	}
	all, _, err := signedButtons(ctx, s.answers, n, s.target.recipient())
	var tokens []string
	var expires time.Time
	for _, b := range all {
		if b.token.Decision == answer.Approve && !complete {
			continue // a person must not approve what the message does not show
		}
		out, tokens = append(out, telegramButton{Text: b.label, Data: answer.Code(b.signed)}), append(tokens, b.signed)
		if b.token.Expires.After(expires) {
			expires = b.token.Expires
		}
	}
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return out, s.answers.KeepAnswerCodes(ctx, tokens, answer.Code, expires)
}

// telegramUpdate is something that happened to the bot.
type telegramUpdate struct {
	ID       int64             `json:"update_id"`
	Message  *telegramIncoming `json:"message"`
	Callback *telegramCallback `json:"callback_query"`
}

type telegramIncoming struct {
	ID   int64         `json:"message_id"`
	From *telegramUser `json:"from"`
	Chat telegramChat  `json:"chat"`
	Text string        `json:"text"`
}

type telegramCallback struct {
	ID      string            `json:"id"`
	From    telegramUser      `json:"from"`
	Message *telegramIncoming `json:"message"`
	Data    string            `json:"data"`
}

type telegramUser struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
}

type telegramChat struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
}

// name is how events name a person. The name is chosen by that person, so only a harmless one is shown.
func (u telegramUser) name() string {
	if isWord(u.Username) {
		return fmt.Sprintf("@%s (Telegram %d)", u.Username, u.ID)
	}
	return fmt.Sprintf("Telegram %d", u.ID)
}

// is reports whether a chat is the recipient of a token.
func (c telegramChat) is(recipient string) bool {
	return recipient == fmt.Sprintf("telegram:%d", c.ID) || c.Username != "" && recipient == "telegram:@"+c.Username
}

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
