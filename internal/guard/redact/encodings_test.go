package redact_test

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"claudeops/internal/guard/redact"
)

// perByte writes each byte with a format and puts a text between them.
func perByte(s, format, between string) string {
	out := make([]string, len(s))
	for i := range out {
		out[i] = fmt.Sprintf(format, s[i])
	}
	return strings.Join(out, between)
}

func wrap(s string, width int, with string) string {
	var b strings.Builder
	for len(s) > width {
		b.WriteString(s[:width] + with)
		s = s[width:]
	}
	return b.String() + s
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '.'
		}
		return r
	}, s)
}

// dump prints s as a hex dump: each line has an offset, width bytes and the text.
func dump(s string, width int, offset string, row func(string) string, text string) string {
	var lines []string
	for at := 0; at < len(s); at += width {
		part := s[at:min(len(s), at+width)]
		line := fmt.Sprintf(offset, at) + row(part)
		if text != "" {
			line += fmt.Sprintf(text, printable(part))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func words(format string, swap bool) func(string) string {
	return func(s string) string {
		var out []string
		for i := 0; i < len(s); i += 2 {
			first, second := s[i], byte(0)
			if i+1 < len(s) {
				second = s[i+1]
			}
			if swap {
				first, second = second, first
			}
			out = append(out, fmt.Sprintf(format, first, second))
		}
		return strings.Join(out, " ")
	}
}

func quotedJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b[1 : len(b)-1])
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if r|0x20 >= 'a' && r|0x20 <= 'z' {
			return r ^ 0x20
		}
		return r
	}, s)
}

func backwards(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// encoders are the ways a configured secret may be printed. Each value stands between other text, as in a file.
var encoders = map[string]func(string) string{
	"plain":           func(s string) string { return s },
	"json":            quotedJSON,
	"json twice":      func(s string) string { return quotedJSON(quotedJSON(s)) },
	"url query":       url.QueryEscape,
	"url path":        url.PathEscape,
	"url every byte":  func(s string) string { return "%" + perByte(s, "%02X", "%") },
	"html":            html.EscapeString,
	"html decimal":    func(s string) string { return "&#" + perByte(s, "%d", ";&#") + ";" },
	"html hex":        func(s string) string { return "&#x" + perByte(s, "%x", ";&#x") + ";" },
	"unicode escapes": func(s string) string { return `\u` + perByte(s, "%04x", `\u`) },
	"hex escapes":     func(s string) string { return `\x` + perByte(s, "%02x", `\x`) },
	"octal escapes":   func(s string) string { return `\` + perByte(s, "%03o", `\`) },
	"hex":             func(s string) string { return hex.EncodeToString([]byte(s)) },
	"hex upper":       func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"hex with spaces": func(s string) string { return perByte(s, "%02x", " ") },
	"hex with colons": func(s string) string { return perByte(s, "%02x", ":") },
	"hex list":        func(s string) string { return "0x" + perByte(s, "%02x", ", 0x") },
	"hex wrapped":     func(s string) string { return wrap(hex.EncodeToString([]byte(s)), 60, "\n") },
	"decimal list":    func(s string) string { return "[" + perByte(s, "%d", ", ") + "]" },
	"decimal of Go":   func(s string) string { return "[" + perByte(s, "%d", " ") + "]" },
	"base64":          func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 at 1":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u" + s + "\n")) },
	"base64 at 2":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u:" + s + "\n")) },
	"base64 url":      func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 wrapped":  func(s string) string { return wrap(base64.StdEncoding.EncodeToString([]byte("x="+s)), 20, "\n") },
	"base64 twice": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(s))))
	},
	"base32":      func(s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) },
	"base32 at 2": func(s string) string { return base32.StdEncoding.EncodeToString([]byte("u:" + s)) },
	"xxd":         func(s string) string { return dump("KEY="+s+"\n", 16, "%08x: ", words("%02x%02x", false), "  %s") },
	"xxd plain":   func(s string) string { return wrap(hex.EncodeToString([]byte("KEY="+s+"\n")), 60, "\n") },
	"hexdump -C": func(s string) string {
		return dump("KEY="+s+"\n", 16, "%08x  ", func(p string) string { return perByte(p, "%02x", " ") }, "  |%s|")
	},
	"od -x": func(s string) string { return dump("KEY="+s+"\n", 16, "%07o ", words("%02x%02x", true), "") },
	"od -c": func(s string) string {
		return dump("KEY="+s+"\n", 16, "%07o   ", func(p string) string { return strings.Join(strings.Split(printable(p), ""), "   ") }, "")
	},
	"od -t x1": func(s string) string {
		return dump("KEY="+s+"\n", 16, "%07o ", func(p string) string { return perByte(p, "%02x", " ") }, "")
	},
	"od -b": func(s string) string {
		return dump("KEY="+s+"\n", 16, "%07o ", func(p string) string { return perByte(p, "%03o", " ") }, "")
	},
	"split by newline":   func(s string) string { return wrap(s, (len(s)+1)/2, "\n") },
	"split by backslash": func(s string) string { return wrap(s, (len(s)+1)/2, "\\\n") },
	"folded":             func(s string) string { return wrap(s, 8, "\n") },
	"concatenated":       func(s string) string { return wrap(s, (len(s)+1)/2, `" + "`) },
	"spaced":             func(s string) string { return strings.Join(strings.Split(s, ""), " ") },
	"dashed":             func(s string) string { return strings.Join(strings.Split(s, ""), "-") },
	"one per line":       func(s string) string { return strings.Join(strings.Split(s, ""), "\n") },
	"quoted-printable":   func(s string) string { return wrap(strings.ReplaceAll(s, "=", "=3D"), (len(s)+1)/2, "=\n") },
	"shell quoted": func(s string) string {
		return strings.NewReplacer("!", `\!`, "$", `\$`, "&", `\&`, " ", `\ `).Replace(s)
	},
	"upper case":   strings.ToUpper,
	"swapped case": swapCase,
	"reversed":     backwards,
	"cut off":      func(s string) string { return s[:len(s)*4/5] },
}

// configured makes secrets as operators have them.
func configured(rng *rand.Rand) []string {
	var out []string
	for _, pattern := range []string{"{A16}", "{A24}", "{h32}", "{w40}", "{b44}", "{p20}", "{l12}-{l12}", "sk-ant-api03-{w60}", "{p10}&=$ {p6}"} {
		text, _ := fill(rng, pattern)
		out = append(out, text)
	}
	return out
}

// leaks reports whether the larger part of the encoded secret is still there. Each alphanumeric run of it is looked for.
func leaks(got, encoded string) bool {
	left, all := 0, 0
	for run := range strings.FieldsFuncSeq(encoded, func(r rune) bool { return r == '\n' || r == ' ' }) {
		all += len(run)
		if len(run) > 1 && strings.Contains(got, run) {
			left += len(run)
		}
	}
	if strings.Contains(got, encoded) {
		return true
	}
	return 2*left > all
}

// TestCorpusOfEncodings prints how many encodings of configured secrets are redacted, in one text and line by line.
func TestCorpusOfEncodings(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	seen := figures{}
	for range 5 {
		secrets := configured(rng)
		r := redact.New(secrets)
		for _, kind := range sorted(encoders) {
			for _, secret := range secrets {
				encoded := encoders[kind](secret)
				places := map[string]string{
					"text":  r.String("before " + encoded + " after"),
					"event": r.String(jsonLine("before\n" + encoded + "\nafter")),
				}
				st := r.Stream()
				var lines []string
				for line := range strings.SplitSeq("before\n"+encoded+"\nafter", "\n") {
					lines = append(lines, st.Line(line))
				}
				places["lines"] = strings.Join(lines, "\n")
				for _, place := range sorted(places) {
					got, shown := places[place], encoded
					if place == "event" {
						shown = quotedJSON(encoded)
						got, shown = strings.ReplaceAll(got, `\n`, "\n"), strings.ReplaceAll(shown, `\n`, "\n")
					}
					bad := leaks(got, shown)
					seen.count(kind, !bad)
					if bad && testing.Verbose() && seen[kind].all-seen[kind].redacted == 1 {
						t.Logf("  %s, %s: %q of %q", kind, place, got, secret)
					}
				}
			}
		}
	}
	if share := seen.report(t, "encodings of configured secrets"); share < 0.95 {
		t.Errorf("only %.2f %% were redacted, want 95 %%", 100*share)
	}
}
