package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
)

const (
	minSecret = 6
	// minSecretLine is the least length at which one line of a secret of several lines is a secret
	// of its own: such a secret is printed line by line.
	minSecretLine = 12
)

type literalKey struct {
	text string
	fold bool
}

// forms lists every text the secrets may be printed as.
func forms(secrets []string) []literal {
	seen := make(map[literalKey]bool)
	var out []literal
	add := func(text string, fold bool) {
		key := literalKey{text, fold}
		if len(text) < minSecret || seen[key] {
			return
		}
		seen[key] = true
		out = append(out, literal{text: text, fold: fold, mark: markSecret})
	}
	for _, secret := range secrets {
		for _, value := range values(secret) {
			for _, text := range encodings(value) {
				add(text, false)
			}
			if len(value) >= leastTrail {
				add(strings.ToLower(value), true)
			}
			for _, l := range trails(value) {
				if len(l.text) >= key {
					out = append(out, l)
				}
			}
			// The digits of hex and of percent escapes come in either case.
			add(hex.EncodeToString([]byte(value)), true)
			for _, text := range percentForms(value) {
				if strings.Contains(text, "%") {
					add(strings.ToLower(text), true)
				} else {
					add(text, false)
				}
			}
		}
	}
	return out
}

// values are the secret without the white space around it and, where it has several lines, each.
func values(secret string) []string {
	secret = strings.TrimSpace(secret)
	if len(secret) < minSecret {
		return nil
	}
	out := []string{secret}
	if !strings.Contains(secret, "\n") {
		return out
	}
	for line := range strings.SplitSeq(secret, "\n") {
		line = strings.TrimSpace(line)
		if len(line) >= minSecretLine && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

func encodings(value string) []string {
	out := []string{value, strings.ToValidUTF8(value, "\uFFFD")}
	for _, escaped := range jsonForms(value) {
		out = append(out, escaped)
		// A JSON document inside a string of another one.
		out = append(out, jsonForms(escaped)...)
	}
	out = append(out, htmlForms(value)...)
	out = append(out, quotedForms(value)...)
	return append(out, base64Forms(value)...)
}

// jsonForms are the ways encoders write a text inside a JSON string.
func jsonForms(value string) []string {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil
	}
	bare := strings.Trim(strings.TrimSpace(plain.String()), "\n")
	bare = bare[1 : len(bare)-1]
	html, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return []string{
		bare,
		string(html[1 : len(html)-1]),
		asciiOnly(bare),
		strings.ReplaceAll(bare, "/", `\/`),
	}
}

// asciiOnly writes what is not ASCII as \uXXXX, as many encoders do.
func asciiOnly(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// base64Forms are the characters of a base64 text that the value alone decides, for each of the
// three places it can have in a group. They are the same with and without padding.
func base64Forms(value string) []string {
	var out []string
	for lead := range 3 {
		padded := append(make([]byte, lead), value...)
		first := (lead*8 + 5) / 6
		last := len(padded) * 8 / 6
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString(padded)[first:last]
			out = append(out, text, strings.ReplaceAll(text, "/", `\/`))
		}
	}
	return out
}

// percentForms are the value as part of a URL: of its query, its path, and of neither in particular.
func percentForms(value string) []string {
	strict := percent(value, "")
	return []string{strings.ReplaceAll(strict, "%20", "+"), percent(value, "$&+=:@"), strict}
}

// percent escapes everything but letters, digits, the unreserved marks of RFC 3986 and those in keep.
func percent(value, keep string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		if isWord(c) || c == '.' || c == '~' || strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}
