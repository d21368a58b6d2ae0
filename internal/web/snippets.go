package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// snippets renders the small HTML pieces of list rows. It is much faster than templates, which matters in long lists. All
// foreign text is escaped, and used only as text or in quoted attributes.
type snippets struct {
	sprite string // URL of the icons
}

func safe(text string) string {
	if !strings.ContainsAny(text, "\x00\"'&<>") {
		return text
	}
	return template.HTMLEscapeString(text)
}

// icon renders one icon of the sprite.
func (k snippets) icon(name string) template.HTML {
	//nolint:gosec // escaped
	return template.HTML(`<svg class="icon" aria-hidden="true" focusable="false"><use href="` + k.sprite + `#` + safe(name) + `"></use></svg>`)
}

// badge renders a status: icon, word and colour.
func (k snippets) badge(b badge) template.HTML {
	//nolint:gosec // escaped
	return template.HTML(`<span class="badge tone-` + safe(b.Tone) + `">` + string(k.icon(b.Icon)) +
		`<span>` + safe(b.Word) + `</span></span>`)
}

// time renders a time, exact on hover.
func (snippets) time(s stamp) template.HTML {
	ago := ""
	if s.Ago {
		ago = " data-ago"
	}
	//nolint:gosec // escaped
	return template.HTML(`<time datetime="` + safe(s.ISO) + `" title="` + safe(s.Exact) + `"` + ago + `>` + safe(s.Text) + `</time>`)
}

// figure renders a number that may be unknown.
func (snippets) figure(f figure) template.HTML {
	//nolint:gosec // escaped
	switch {
	case !f.Known && f.Exact == "":
		return template.HTML(`<span class="faint">` + safe(f.Text) + `</span>`)
	case !f.Known:
		return template.HTML(`<span class="faint" title="` + safe(f.Exact) + `">` + safe(f.Text) + `</span>`)
	case f.Exact == "":
		return template.HTML(`<span>` + safe(f.Text) + `</span>`)
	default:
		return template.HTML(`<span title="` + safe(f.Exact) + `">` + safe(f.Text) + `</span>`)
	}
}

// tier renders a tier as a small label.
func (snippets) tier(t ops.Tier) template.HTML {
	n, short := strconv.Itoa(int(t)), "T"+strconv.Itoa(int(t))
	if t > ops.LastTier {
		short = "H"
	}
	//nolint:gosec // it has no foreign text
	return template.HTML(fmt.Sprintf(`<span class="tier tier-%s" title="%s: %s"><span aria-hidden="true">%s</span>`+
		`<span class="hidden">%s</span></span>`, n, t, t.Title(), short, t))
}
