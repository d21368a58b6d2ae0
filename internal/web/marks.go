package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// marks write the small pieces that stand in every row of every list. A template would spend more on each of them than on
// the rest of the row. Whatever is not ours is escaped, and stands in text or between quotes.
type marks struct {
	sprite string // address of the icons
}

func safe(text string) string {
	if !strings.ContainsAny(text, "\x00\"'&<>") {
		return text
	}
	return template.HTMLEscapeString(text)
}

// icon refers to one icon of the sprite.
func (k marks) icon(name string) template.HTML {
	//nolint:gosec // escaped
	return template.HTML(`<svg class="icon" aria-hidden="true" focusable="false"><use href="` + k.sprite + `#` + safe(name) + `"></use></svg>`)
}

// badge is a status: icon, word and colour.
func (k marks) badge(b badge) template.HTML {
	//nolint:gosec // escaped
	return template.HTML(`<span class="badge tone-` + safe(b.Tone) + `">` + string(k.icon(b.Icon)) + `<span>` + safe(b.Word) + `</span></span>`)
}

// time is a moment, exact on hover.
func (marks) time(s stamp) template.HTML {
	ago := ""
	if s.Ago {
		ago = " data-ago"
	}
	//nolint:gosec // escaped
	return template.HTML(`<time datetime="` + safe(s.ISO) + `" title="` + safe(s.Exact) + `"` + ago + `>` + safe(s.Text) + `</time>`)
}

// figure is a number that may be unknown.
func (marks) figure(f figure) template.HTML {
	//nolint:gosec // escaped
	switch {
	case !f.Known:
		return template.HTML(`<span class="faint">` + safe(f.Text) + `</span>`)
	case f.Exact == "":
		return template.HTML(`<span>` + safe(f.Text) + `</span>`)
	default:
		return template.HTML(`<span title="` + safe(f.Exact) + `">` + safe(f.Text) + `</span>`)
	}
}

// tier is a tier as a small mark.
func (marks) tier(t ops.Tier) template.HTML {
	n, short := strconv.Itoa(int(t)), "T"+strconv.Itoa(int(t))
	if t > ops.LastTier {
		short = "H"
	}
	//nolint:gosec // it has numbers and words of ours only
	return template.HTML(fmt.Sprintf(`<span class="tier tier-%s" title="%s: %s"><span aria-hidden="true">%s</span><span class="hidden">%s</span></span>`,
		n, t, t.Title(), short, t))
}
