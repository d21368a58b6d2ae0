package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

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
	shown, complete := fit(messageOf(n).whole(), longestTelegram)
	buttons, err := codedButtons(ctx, s.answers, n, s.target.recipient(), complete)
	if err != nil {
		return err
	}
	var keyboard map[string]any
	if len(buttons) > 0 {
		row := make([]telegramButton, len(buttons))
		for i, b := range buttons {
			row[i] = telegramButton{Text: b.label, Data: answer.Code(b.signed)}
		}
		keyboard = map[string]any{"inline_keyboard": [][]telegramButton{row}}
	}
	return s.bot.call(ctx, "sendMessage", telegramMessage{
		ChatID: s.target.Chat, Thread: s.target.Thread, Text: shown, Silent: s.target.Silent, Preview: map[string]bool{"is_disabled": true},
		Keyboard: keyboard,
	}, nil)
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

// name is how events name a person.
func (u telegramUser) name() string { return personName(u.Username, fmt.Sprintf("Telegram %d", u.ID)) }

// is reports whether a chat is the recipient of a token.
func (c telegramChat) is(recipient string) bool {
	return recipient == fmt.Sprintf("telegram:%d", c.ID) || c.Username != "" && recipient == "telegram:@"+c.Username
}
