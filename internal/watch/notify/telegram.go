package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

// TelegramAPI is the server of the bots.
const TelegramAPI = "https://api.telegram.org"

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
	if err := json.Unmarshal(said.Result, out); err != nil {
		return fmt.Errorf("read answer of the Telegram API: %w", err)
	}
	return nil
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
	return out, s.answers.KeepAnswerCodes(ctx, tokens, expires)
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
	const longest = 32
	plain := strings.Trim(u.Username, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
	if u.Username != "" && plain && len(u.Username) <= longest {
		return fmt.Sprintf("@%s (Telegram %d)", u.Username, u.ID)
	}
	return fmt.Sprintf("Telegram %d", u.ID)
}

// is reports whether a chat is the recipient of a token.
func (c telegramChat) is(recipient string) bool {
	return recipient == fmt.Sprintf("telegram:%d", c.ID) || c.Username != "" && recipient == "telegram:@"+c.Username
}
