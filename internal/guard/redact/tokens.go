package redact

import (
	"slices"
	"strings"
)

// What the parts of tokens consist of, beside what isWord and its like take.

func lowerHex(c byte) bool    { return isDigit(c) || 'a' <= c && c <= 'f' }
func letters(c byte) bool     { return 'a' <= c|caseBit && c|caseBit <= 'z' }
func lowerAlnum(c byte) bool  { return isDigit(c) || 'a' <= c && c <= 'z' }
func base32Upper(c byte) bool { return '2' <= c && c <= '7' || 'A' <= c && c <= 'Z' }
func dotted(c byte) bool      { return isWord(c) || c == '.' || c == '=' }
func mixed(c byte) bool       { return dotted(c) || c == '~' }

// std64 takes base64 and the percent sign that escapes its marks.
func std64(c byte) bool { return isAlnum(c) || c == '+' || c == '/' || c == '=' || c == '%' }

// anyValue takes what stands in a header or a URL without quotes.
func anyValue(c byte) bool { return isCredential(c) || c == '%' }

// part is one run of bytes of a kind in a token.
type part struct {
	before string // stands before it: a dot, a dash
	of     func(c byte) bool
	least  int
	most   int // 0 is any length
}

// tokenShape describes how tokens look: a fixed text and the parts behind it.
type tokenShape struct {
	fixed string // in the tables: of several kinds of tokens
	parts []part
	lead  part // stands before the fixed text and belongs to the token
	digit bool // only with a digit behind the fixed text, which tells a token from a word
}

func one(of func(c byte) bool, least, most int) []part {
	return []part{{of: of, least: least, most: most}}
}

func exact(of func(c byte) bool, n int) []part { return one(of, n, n) }

func open(of func(c byte) bool, least int) []part { return one(of, least, 0) }

func uuid() []part {
	return joined("-", of(isHex, 8, 8), of(isHex, 4, 4), of(isHex, 4, 4), of(isHex, 4, 4), of(isHex, 12, 12))
}

// joined are parts with the same text between them.
func joined(between string, parts ...part) []part {
	for i := range parts[1:] {
		parts[i+1].before = between
	}
	return parts
}

func of(a func(c byte) bool, least, most int) part { return part{of: a, least: least, most: most} }

// tokenShapes lists the published formats of tokens: what they begin with, which characters follow and how many.
func tokenShapes() []tokenShape {
	var out []tokenShape
	for _, t := range slices.Concat(fixedShapes(), openShapes(), partedShapes()) {
		for text := range strings.FieldsSeq(t.fixed) {
			t.fixed = text
			out = append(out, t)
		}
	}
	return out
}

// fixedShapes are the tokens of a known length.
func fixedShapes() []tokenShape {
	return []tokenShape{
		{fixed: "NRJS-", parts: exact(lowerHex, 19)},
		{fixed: "SK0 SK1 SK2 SK3 SK4 SK5 SK6 SK7 SK8 SK9 SKa SKb SKc SKd SKe SKf", parts: exact(lowerHex, 31)}, // the scanner needs three bytes
		{fixed: "dapi key-", parts: exact(lowerHex, 32)},
		{fixed: "pul- sbp_ squ_ sqp_ sqa_ bkua_ shippo_live_ shippo_test_", parts: exact(lowerHex, 40)},
		{fixed: "NRRA-", parts: exact(lowerHex, 42)},
		{fixed: "rubygems_", parts: exact(lowerHex, 48)},
		{fixed: "dop_v1_ doo_v1_ dor_v1_ s-s4t2ud- s-s4t2af- sntryu_", parts: exact(lowerHex, 64)},
		{fixed: "shpat_ shpca_ shppa_ shpss_ shpua_", parts: exact(isHex, 32)},
		{fixed: "oy2", parts: exact(lowerAlnum, 43), digit: true},
		{fixed: "ABIA", parts: exact(isUpperDigit, 16)},
		{fixed: "ACCA", parts: exact(isUpperDigit, 16), digit: true},
		{fixed: "A3T", parts: exact(isUpperDigit, 17), digit: true},
		{fixed: "API-", parts: exact(isUpperDigit, 26)},
		{fixed: "NRAK-", parts: exact(isUpperDigit, 27)},
		{fixed: "claudeops_", parts: exact(base32Upper, 26)}, // ours
		{fixed: "npg_", parts: one(isAlnum, 12, 24), digit: true},
		{fixed: "LTAI", parts: one(isAlnum, 16, 26), digit: true},
		{fixed: "ATBB", parts: one(isAlnum, 28, 36), digit: true},
		{fixed: "AKID ico- cio", parts: exact(isAlnum, 32), digit: true},
		{fixed: "hf_ api_org_", parts: exact(isAlnum, 34)},
		{fixed: "npm_ pnu_ pnb_", parts: exact(isAlnum, 36)},
		{fixed: "nfp_", parts: one(isAlnum, 36, 44)},
		{fixed: "4b1d", parts: exact(isAlnum, 38)},
		{fixed: "lin_api_", parts: exact(isAlnum, 40)},
		{fixed: "secret_", parts: exact(isAlnum, 43)},
		{fixed: "ntn_", parts: exact(isAlnum, 46)},
		{fixed: "EZAK EZTK", parts: exact(isAlnum, 54)},
		{fixed: "CLOJARS_", parts: exact(isAlnum, 60)},
		{fixed: "YCP", parts: exact(isWord, 37), digit: true},
		{fixed: "sha256~", parts: exact(isWord, 43)},
		{fixed: "EAAA", parts: exact(isWord, 60), digit: true},
		{fixed: "AZDO", lead: of(isAlnum, 60, 80), parts: exact(isAlnum, 4)},
		{fixed: ":AA", lead: of(isDigit, 8, 11), parts: one(isWord, 32, 34)},
		{fixed: "-us", lead: of(lowerHex, 32, 32), parts: one(isDigit, 1, 2)},
		{fixed: "0Q~ 1Q~ 2Q~ 3Q~ 4Q~ 5Q~ 6Q~ 7Q~ 8Q~ 9Q~", lead: of(isAlnum, 3, 3), parts: one(mixed, 31, 36)},
	}
}

// openShapes are the tokens of at least a length.
func openShapes() []tokenShape {
	return []tokenShape{
		{fixed: "FLWSECK_TEST-", parts: open(isHex, 12)},
		{fixed: "age-secret-key-1", parts: open(lowerAlnum, 40)},
		{fixed: "hcaik_", parts: open(lowerAlnum, 50)},
		{fixed: "rdme_", parts: open(lowerAlnum, 64)},
		{fixed: "AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1", parts: open(isUpperDigit, 40)},
		{fixed: "sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_", parts: open(isAlnum, 10)},
		{fixed: "sm_pat_ sm_aat_ sm_sat_", parts: open(isAlnum, 16)},
		{fixed: "ghp_ gho_ ghu_ ghs_ ghr_", parts: open(isAlnum, 20)},
		{fixed: "lin_oauth_", parts: open(isAlnum, 32)},
		{fixed: "r8_", parts: open(isAlnum, 36), digit: true},
		{fixed: "gsk_ pplx-", parts: open(isAlnum, 40)},
		{fixed: "cmVmdGtu", parts: open(isAlnum, 56)},
		{fixed: "AKCp xai-", parts: open(isAlnum, 60)},
		{fixed: "EAAC EAAM", parts: open(isAlnum, 90), digit: true},
		{fixed: "tskey-", parts: open(isWord, 16)},
		{fixed: "sk-", parts: open(isWord, 16), digit: true},
		{fixed: "github_pat_ GR1348941 xapp- xwfp- xoxe.xox FLWSECK- ya29. sb_secret_ YCAJE", parts: open(isWord, 20)},
		{fixed: "AGE-PLUGIN-", parts: open(isWord, 20), digit: true},
		{fixed: "sq0atp-", parts: open(isWord, 22)},
		{fixed: "GOCSPX- dckr_pat_ dckr_oat_ hvs. hvb. hvr.", parts: open(isWord, 24)},
		{fixed: "AIza", parts: open(isWord, 30)},
		{fixed: "NRII- lsv2_pt_ lsv2_sk_", parts: open(isWord, 32)},
		{fixed: "AQVN", parts: open(isWord, 34)},
		{fixed: "HRKU-", parts: open(isWord, 36)},
		{fixed: "1//0 figd_ figu_", parts: open(isWord, 38)},
		{fixed: "fo1_ tk-us- CCIPAT_ CCIPRJ_ cfut_ sq0csp- duffel_live_ duffel_test_ CFPAT- pcsk_ nvapi- tgp_v1_", parts: open(isWord, 40)},
		{fixed: "pypi-AgE", parts: open(isWord, 50)},
		{fixed: "dnkey- fio-u- sl.", parts: open(isWord, 60)},
		{fixed: ".atlasv1.", lead: of(isAlnum, 14, 14), parts: open(isWord, 60)},
		{fixed: "/answer/", parts: open(isWord, 80)}, // ours
		{fixed: "_mmk", lead: of(isWord, 36, 36), parts: open(isDigit, 0)},
		{fixed: "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com%2F", parts: open(std64, 20)},
		{fixed: "whsec_", parts: open(std64, 24)},
		// What the encodings of private keys begin with: OpenSSH, RSA and EC, with and without PKCS #8.
		{fixed: "b3BlbnNzaC1rZXktdjE MIIEvQIBADAN MIIEvgIBADAN MIIEvwIBADAN MIIEwAIBADAN MIIJQgIBADAN MIIJQwIBADAN MIIJRAIBADAN " +
			"MIIEowIBAAKC MIIEpAIBAAKC MIIEpQIBAAKC MIIEogIBAAKC MIIJKQIBAAKC MIIJKAIBAAKC MIIJKgIBAAKC " +
			"MHcCAQEEI MIGHAgEAMBMG MC4CAQAwBQYDK2Vw MIGkAgEBBD", parts: open(std64, 24)},
		{fixed: "glc_", parts: open(std64, 32)},
		{fixed: "bedrock-api-key- sntrys_", parts: open(std64, 40)},
		{fixed: "ops_eyJ", parts: open(std64, 60)},
		{fixed: "fm1r_ fm1a_ fm2_", parts: open(std64, 80)},
		{fixed: "ABSK", parts: open(std64, 100)},
		{fixed: "glpat- gldt- glptt- glrt- glcbt- glft- glimt- glagent- gloas- glsoat- glffct- glwt-", parts: open(dotted, 16)},
		{fixed: "pscale_tkn_ pscale_oauth_ pscale_pw_", parts: open(dotted, 30)},
		{fixed: "ATOA", parts: open(dotted, 40), digit: true},
		{fixed: "tfp_", parts: open(dotted, 50)},
		{fixed: "ATATT3 ATCTT3", parts: open(dotted, 100)},
		{fixed: "dp.pt. dp.st. dp.ct. dp.sa. dp.said. dp.scim. dp.audit.", parts: open(mixed, 32), digit: true},
		{fixed: "xoxa- xoxb- xoxc- xoxd- xoxe- xoxp- xoxr- xoxs-", parts: open(anyValue, 10)},
		{fixed: ".webhook.office.com/webhookb2/", parts: open(anyValue, 36)},
	}
}

// partedShapes are the tokens, and hashes of passwords, that have several parts.
func partedShapes() []tokenShape {
	return []tokenShape{
		{fixed: "access-sandbox- access-production- access-development- pat-na1- pat-eu1- api- sdk- mob-", parts: uuid()},
		{fixed: "v1.0-", parts: joined("-", of(lowerHex, 24, 24), of(lowerHex, 100, 160))},
		{fixed: "PMAK-", parts: joined("-", of(lowerHex, 24, 24), of(lowerHex, 34, 34))},
		{fixed: "xkeysib- xsmtpsib-", parts: joined("-", of(lowerHex, 64, 64), of(isAlnum, 16, 16))},
		{fixed: "A3-", parts: joined("-", of(isUpperDigit, 6, 6), of(isUpperDigit, 6, 11), of(isUpperDigit, 5, 5), of(isUpperDigit, 5, 5))},
		{fixed: "dt0c01.", parts: joined(".", of(isUpperDigit, 24, 24), of(isUpperDigit, 64, 64))},
		{fixed: "re_", parts: joined("_", of(isAlnum, 8, 8), of(isAlnum, 20, 28))},
		{fixed: "glsa_", parts: joined("_", of(isAlnum, 32, 32), of(isHex, 8, 8))},
		{fixed: "SG.", parts: joined(".", of(isWord, 16, 32), of(isWord, 30, 60))},
		{fixed: "pat. sat.", parts: joined(".", of(isWord, 22, 22), of(isHex, 24, 24), of(isAlnum, 20, 20))},
		{fixed: "/api/webhooks/", parts: joined("/", of(isDigit, 15, 20), of(isWord, 40, 0))},
		{fixed: "AAAAAAAAAAAAAAAAAAAAA", parts: joined("%", of(isAlnum, 4, 90), of(anyValue, 30, 0))},
		{fixed: "$2a$ $2b$ $2y$", parts: joined("$", of(isDigit, 2, 2), of(anyValue, 50, 0))},
		{fixed: "$apr1$", parts: joined("$", of(anyValue, 4, 8), of(anyValue, 20, 24))},
		{fixed: "$5$", parts: joined("$", of(anyValue, 4, 24), of(anyValue, 40, 48))},
		{fixed: "$6$", parts: joined("$", of(anyValue, 4, 24), of(anyValue, 80, 90))},
		{fixed: "$y$", parts: joined("$", of(anyValue, 2, 8), of(anyValue, 8, 90), of(anyValue, 40, 48))},
	}
}

// literal makes the matcher of a shape.
func (t tokenShape) literal() literal {
	out := literal{text: t.fixed, mark: markToken, match: t.match}
	if first := t.parts[0]; first.before == "" && first.least > 0 {
		out.next = first.of
	}
	return out
}

// match finds the token whose fixed text is s[i:j].
func (t tokenShape) match(s string, i, j int) (from, to int, ok bool) {
	last := t.parts[len(t.parts)-1]
	if from, ok = t.begin(s, i); !ok || last.of('-') && isAlnum(s[i]) && !startsWord(s, from) {
		return 0, 0, false
	}
	to = j
	for _, p := range t.parts {
		if to, ok = p.match(s, to); !ok {
			return 0, 0, false
		}
	}
	if t.digit && !needDigit(s[j:to]) {
		return 0, 0, false
	}
	if last.most == 0 {
		to = run(s, to, last.of)
	}
	return from, to, true
}

// begin is where the token begins whose fixed text is at i.
func (t tokenShape) begin(s string, i int) (int, bool) {
	if t.lead.least == 0 {
		return i, !isAlnum(s[i]) || startsToken(s, i)
	}
	from := i
	for from > 0 && i-from < t.lead.most && t.lead.of(s[from-1]) {
		from--
	}
	for ; i-from >= t.lead.least; from++ {
		if startsToken(s, from) {
			return from, true
		}
	}
	return 0, false
}

// mostPart is how much of a part without an end is looked at before it counts.
const mostPart = 4096

func (p part) match(s string, i int) (to int, ok bool) {
	if len(s)-i < len(p.before) || s[i:i+len(p.before)] != p.before {
		return 0, false
	}
	i += len(p.before)
	for to = i; to < len(s) && to-i < mostPart && p.of(s[to]); to++ {
		if p.most > 0 && to-i >= p.most {
			return 0, false
		}
	}
	return to, to-i >= p.least
}

// startsToken reports whether a token may begin at i: no letter or digit stands before it, except those that end an escape
// sequence such as \n, %3D or a color of a terminal.
func startsToken(s string, i int) bool {
	if i == 0 || !isAlnum(s[i-1]) {
		return true
	}
	c := s[i-1]
	switch {
	case c == 'm':
		p := i - 1
		for p > 0 && (isDigit(s[p-1]) || s[p-1] == ';') {
			p--
		}
		return p > 0 && s[p-1] == '['
	case i >= 2 && s[i-2] == '\\':
		return c == 'n' || c == 'r' || c == 't' || c == 'b' || c == 'f'
	case i >= 3 && s[i-3] == '%':
		return isHex(c) && isHex(s[i-2])
	case i >= 6 && s[i-6] == '\\' && s[i-5] == 'u':
		return isHex(c) && isHex(s[i-2]) && s[i-4] == '0'
	}
	return i >= 6 && s[i-6:i] == `\u001b` // a terminal's escape without the rest
}
