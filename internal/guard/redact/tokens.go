package redact

// alphabet is a set of bytes that one part of a token consists of.
type alphabet uint8

const (
	digits alphabet = iota
	lowerHex
	anyHex
	letters
	lowerAlnum
	upperAlnum
	alnum
	base32Upper
	url64    // letters, digits, - and _
	std64    // letters, digits, + / and =, and % that escapes them
	dotted   // url64, and . and =
	mixed    // url64, and . = and ~
	anyValue // what stands in a header or a URL without quotes
)

func (a alphabet) has(c byte) bool {
	switch a {
	case digits:
		return isDigit(c)
	case lowerHex:
		return isDigit(c) || 'a' <= c && c <= 'f'
	case anyHex:
		return isHex(c)
	case letters:
		return 'a' <= c|caseBit && c|caseBit <= 'z'
	case lowerAlnum:
		return isDigit(c) || 'a' <= c && c <= 'z'
	case upperAlnum:
		return isUpperDigit(c)
	case alnum:
		return isAlnum(c)
	case base32Upper:
		return '2' <= c && c <= '7' || 'A' <= c && c <= 'Z'
	case url64:
		return isWord(c)
	case std64:
		return isAlnum(c) || c == '+' || c == '/' || c == '=' || c == '%'
	case dotted:
		return isWord(c) || c == '.' || c == '='
	case mixed:
		return isWord(c) || c == '.' || c == '=' || c == '~'
	case anyValue:
		return isCredential(c) || c == '%'
	}
	return false
}

// part is one run of an alphabet in a token.
type part struct {
	before string // stands before it: a dot, a dash
	of     alphabet
	least  int
	most   int // 0 is any length
}

// tokenShape describes how the tokens of one service look: a fixed text and the parts behind it.
type tokenShape struct {
	fixed string
	parts []part
	lead  part // stands before the fixed text and belongs to the token
	digit bool // only with a digit behind the fixed text, which tells a token from a word
}

func one(of alphabet, least, most int) []part { return []part{{of: of, least: least, most: most}} }

func exact(of alphabet, n int) []part { return one(of, n, n) }

func open(of alphabet, least int) []part { return one(of, least, 0) }

func uuid() []part {
	return joined("-", of(anyHex, 8, 8), of(anyHex, 4, 4), of(anyHex, 4, 4), of(anyHex, 4, 4), of(anyHex, 12, 12))
}

// joined are parts with the same text between them.
func joined(between string, parts ...part) []part {
	for i := range parts[1:] {
		parts[i+1].before = between
	}
	return parts
}

func of(a alphabet, least, most int) part { return part{of: a, least: least, most: most} }

// tokenShapes lists the published formats of tokens: what they begin with, which characters follow and how many.
func tokenShapes() []tokenShape {
	out := append(cloudShapes(), codeShapes()...)
	out = append(out, serviceShapes()...)
	out = append(out, modelShapes()...)
	return append(out, keyShapes()...)
}

// cloudShapes are those of clouds, platforms and their tools.
func cloudShapes() []tokenShape {
	out := []tokenShape{
		{fixed: "ABIA", parts: exact(upperAlnum, 16)},
		{fixed: "ACCA", parts: exact(upperAlnum, 16), digit: true},
		{fixed: "A3T", parts: exact(upperAlnum, 17), digit: true},
		{fixed: "ABSK", parts: open(std64, 100)},
		{fixed: "bedrock-api-key-", parts: open(std64, 40)},
		{fixed: "LTAI", parts: one(alnum, 16, 26), digit: true},
		{fixed: "AKID", parts: exact(alnum, 32), digit: true},
		{fixed: "AIza", parts: open(url64, 30)},
		{fixed: "GOCSPX-", parts: open(url64, 24)},
		{fixed: "ya29.", parts: open(url64, 20)},
		{fixed: "1//0", parts: open(url64, 38)},
		{fixed: "AZDO", lead: of(alnum, 60, 80), parts: exact(alnum, 4)},
		{fixed: "dop_v1_", parts: exact(lowerHex, 64)},
		{fixed: "doo_v1_", parts: exact(lowerHex, 64)},
		{fixed: "dor_v1_", parts: exact(lowerHex, 64)},
		{fixed: "v1.0-", parts: joined("-", of(lowerHex, 24, 24), of(lowerHex, 100, 160))},
		{fixed: "HRKU-", parts: open(url64, 36)},
		{fixed: "fo1_", parts: open(url64, 40)},
		{fixed: "fm1r_", parts: open(std64, 80)},
		{fixed: "fm1a_", parts: open(std64, 80)},
		{fixed: "fm2_", parts: open(std64, 80)},
		{fixed: "nfp_", parts: one(alnum, 36, 44)},
		{fixed: "dckr_pat_", parts: open(url64, 24)},
		{fixed: "dckr_oat_", parts: open(url64, 24)},
		{fixed: "sha256~", parts: exact(url64, 43)},
		{fixed: "hvs.", parts: open(url64, 24)},
		{fixed: "hvb.", parts: open(url64, 24)},
		{fixed: "hvr.", parts: open(url64, 24)},
		{fixed: ".atlasv1.", lead: of(alnum, 14, 14), parts: open(url64, 60)},
		{fixed: "pul-", parts: exact(lowerHex, 40)},
		{fixed: "ico-", parts: exact(alnum, 32), digit: true},
		{fixed: "tskey-", parts: open(url64, 16)},
		{fixed: "dnkey-", parts: open(url64, 60)},
		{fixed: "dapi", parts: exact(lowerHex, 32)},
		{fixed: "pscale_tkn_", parts: open(dotted, 30)},
		{fixed: "pscale_oauth_", parts: open(dotted, 30)},
		{fixed: "pscale_pw_", parts: open(dotted, 30)},
		{fixed: "sbp_", parts: exact(lowerHex, 40)},
		{fixed: "sb_secret_", parts: open(url64, 20)},
		{fixed: "npg_", parts: one(alnum, 12, 24), digit: true},
		{fixed: "4b1d", parts: exact(alnum, 38)},
		{fixed: "tk-us-", parts: open(url64, 40)},
		{fixed: "ops_eyJ", parts: open(std64, 60)},
		{fixed: "A3-", parts: joined("-", of(upperAlnum, 6, 6), of(upperAlnum, 6, 11), of(upperAlnum, 5, 5), of(upperAlnum, 5, 5))},
		{fixed: "AQVN", parts: open(url64, 34)},
		{fixed: "YCAJE", parts: open(url64, 20)},
		{fixed: "YCP", parts: exact(url64, 37), digit: true},
	}
	for _, kind := range []string{"pt", "st", "ct", "sa", "said", "scim", "audit"} {
		out = append(out, tokenShape{fixed: "dp." + kind + ".", parts: open(mixed, 32), digit: true})
	}
	return out
}

// codeShapes are those of code hosts, registries and build services.
func codeShapes() []tokenShape {
	out := []tokenShape{
		{fixed: "github_pat_", parts: open(url64, 20)},
		{fixed: "GR1348941", parts: open(url64, 20)},
		{fixed: "npm_", parts: exact(alnum, 36)},
		{fixed: "pypi-AgE", parts: open(url64, 50)},
		{fixed: "rubygems_", parts: exact(lowerHex, 48)},
		{fixed: "oy2", parts: exact(lowerAlnum, 43), digit: true},
		{fixed: "CLOJARS_", parts: exact(alnum, 60)},
		{fixed: "cio", parts: exact(alnum, 32), digit: true},
		{fixed: "AKCp", parts: open(alnum, 60)},
		{fixed: "cmVmdGtu", parts: open(alnum, 56)},
		{fixed: "squ_", parts: exact(lowerHex, 40)},
		{fixed: "sqp_", parts: exact(lowerHex, 40)},
		{fixed: "sqa_", parts: exact(lowerHex, 40)},
		{fixed: "ATATT3", parts: open(dotted, 100)},
		{fixed: "ATCTT3", parts: open(dotted, 100)},
		{fixed: "ATBB", parts: one(alnum, 28, 36), digit: true},
		{fixed: "ATOA", parts: open(dotted, 40), digit: true},
		{fixed: "bkua_", parts: exact(lowerHex, 40)},
		{fixed: "CCIPAT_", parts: open(url64, 40)},
		{fixed: "CCIPRJ_", parts: open(url64, 40)},
		{fixed: "API-", parts: exact(upperAlnum, 26)},
		{fixed: "PMAK-", parts: joined("-", of(lowerHex, 24, 24), of(lowerHex, 34, 34))},
		{fixed: "pnu_", parts: exact(alnum, 36)},
		{fixed: "pnb_", parts: exact(alnum, 36)},
		{fixed: "rdme_", parts: open(lowerAlnum, 64)},
		{fixed: "sntrys_", parts: open(std64, 40)},
		{fixed: "sntryu_", parts: exact(lowerHex, 64)},
		{fixed: "pat.", parts: joined(".", of(url64, 22, 22), of(anyHex, 24, 24), of(alnum, 20, 20))},
		{fixed: "sat.", parts: joined(".", of(url64, 22, 22), of(anyHex, 24, 24), of(alnum, 20, 20))},
		{fixed: "AGE-SECRET-KEY-1", parts: open(upperAlnum, 40)},
		{fixed: "age-secret-key-1", parts: open(lowerAlnum, 40)},
		{fixed: "AGE-SECRET-KEY-PQ-1", parts: open(upperAlnum, 40)},
		{fixed: "AGE-PLUGIN-", parts: open(url64, 20), digit: true},
		{fixed: "cfut_", parts: open(url64, 40)},
		{fixed: "figd_", parts: open(url64, 38)},
		{fixed: "figu_", parts: open(url64, 38)},
		{fixed: "lin_api_", parts: exact(alnum, 40)},
		{fixed: "lin_oauth_", parts: open(alnum, 32)},
		{fixed: "ntn_", parts: exact(alnum, 46)},
		{fixed: "secret_", parts: exact(alnum, 43)},
	}
	for _, kind := range []string{"p", "o", "u", "s", "r"} {
		out = append(out, tokenShape{fixed: "gh" + kind + "_", parts: open(alnum, 20)})
	}
	for _, kind := range []string{"pat", "dt", "ptt", "rt", "cbt", "ft", "imt", "agent", "oas", "soat", "ffct", "wt"} {
		out = append(out, tokenShape{fixed: "gl" + kind + "-", parts: open(dotted, 16)})
	}
	return out
}

// serviceShapes are those of payment, mail, chat and monitoring services.
func serviceShapes() []tokenShape {
	out := []tokenShape{
		{fixed: "sk_live_", parts: open(alnum, 10)},
		{fixed: "sk_test_", parts: open(alnum, 10)},
		{fixed: "rk_live_", parts: open(alnum, 10)},
		{fixed: "rk_test_", parts: open(alnum, 10)},
		{fixed: "sk_prod_", parts: open(alnum, 10)},
		{fixed: "whsec_", parts: open(std64, 24)},
		{fixed: "sq0atp-", parts: open(url64, 22)},
		{fixed: "sq0csp-", parts: open(url64, 40)},
		{fixed: "EAAA", parts: exact(url64, 60), digit: true},
		{fixed: "EAAC", parts: open(alnum, 90), digit: true},
		{fixed: "EAAM", parts: open(alnum, 90), digit: true},
		{fixed: "EZAK", parts: exact(alnum, 54)},
		{fixed: "EZTK", parts: exact(alnum, 54)},
		{fixed: "FLWSECK_TEST-", parts: open(anyHex, 12)},
		{fixed: "FLWSECK-", parts: open(url64, 20)},
		{fixed: "duffel_live_", parts: open(url64, 40)},
		{fixed: "duffel_test_", parts: open(url64, 40)},
		{fixed: "shippo_live_", parts: exact(lowerHex, 40)},
		{fixed: "shippo_test_", parts: exact(lowerHex, 40)},
		{fixed: "access-sandbox-", parts: uuid()},
		{fixed: "access-production-", parts: uuid()},
		{fixed: "access-development-", parts: uuid()},
		{fixed: "SG.", parts: joined(".", of(url64, 16, 32), of(url64, 30, 60))},
		{fixed: "key-", parts: exact(lowerHex, 32)},
		{fixed: "xkeysib-", parts: joined("-", of(lowerHex, 64, 64), of(alnum, 16, 16))},
		{fixed: "xsmtpsib-", parts: joined("-", of(lowerHex, 64, 64), of(alnum, 16, 16))},
		{fixed: "-us", lead: of(lowerHex, 32, 32), parts: one(digits, 1, 2)},
		{fixed: "re_", parts: []part{of(alnum, 8, 8), {before: "_", of: alnum, least: 20, most: 28}}},
		{fixed: ":AA", lead: of(digits, 8, 11), parts: one(url64, 32, 34)},
		{fixed: "xapp-", parts: open(url64, 20)},
		{fixed: "xwfp-", parts: open(url64, 20)},
		{fixed: "xoxe.xox", parts: open(url64, 20)},
		{fixed: "hooks.slack.com/services/", parts: open(std64, 20)},
		{fixed: "hooks.slack.com%2F", parts: open(std64, 20)},
		{fixed: "hooks.slack.com/workflows/", parts: open(std64, 20)},
		{fixed: "/api/webhooks/", parts: []part{of(digits, 15, 20), {before: "/", of: url64, least: 40}}},
		{fixed: ".webhook.office.com/webhookb2/", parts: open(anyValue, 36)},
		{fixed: "glc_", parts: open(std64, 32)},
		{fixed: "glsa_", parts: []part{of(alnum, 32, 32), {before: "_", of: anyHex, least: 8, most: 8}}},
		{fixed: "NRAK-", parts: exact(upperAlnum, 27)},
		{fixed: "NRII-", parts: open(url64, 32)},
		{fixed: "NRJS-", parts: exact(lowerHex, 19)},
		{fixed: "NRRA-", parts: exact(lowerHex, 42)},
		{fixed: "dt0c01.", parts: joined(".", of(upperAlnum, 24, 24), of(upperAlnum, 64, 64))},
		{fixed: "hcaik_", parts: open(lowerAlnum, 50)},
		{fixed: "_mmk", lead: of(url64, 36, 36), parts: one(digits, 0, 0)},
		{fixed: "pat-na1-", parts: uuid()},
		{fixed: "pat-eu1-", parts: uuid()},
		{fixed: "shpat_", parts: exact(anyHex, 32)},
		{fixed: "shpca_", parts: exact(anyHex, 32)},
		{fixed: "shppa_", parts: exact(anyHex, 32)},
		{fixed: "shpss_", parts: exact(anyHex, 32)},
		{fixed: "shpua_", parts: exact(anyHex, 32)},
		{fixed: "CFPAT-", parts: open(url64, 40)},
		{fixed: "fio-u-", parts: open(url64, 60)},
		{fixed: "tfp_", parts: open(dotted, 50)},
		{fixed: "sl.", parts: open(url64, 60)},
		{fixed: "sm_pat_", parts: open(alnum, 16)},
		{fixed: "sm_aat_", parts: open(alnum, 16)},
		{fixed: "sm_sat_", parts: open(alnum, 16)},
		{fixed: "s-s4t2ud-", parts: exact(lowerHex, 64)},
		{fixed: "s-s4t2af-", parts: exact(lowerHex, 64)},
		{fixed: "AAAAAAAAAAAAAAAAAAAAA", parts: []part{{of: alnum, least: 4, most: 90}, {before: "%", of: anyValue, least: 30}}},
	}
	for _, kind := range []string{"a", "b", "c", "d", "e", "p", "r", "s"} {
		out = append(out, tokenShape{fixed: "xox" + kind + "-", parts: open(anyValue, 10)})
	}
	for _, kind := range []string{"api", "sdk", "mob"} {
		out = append(out, tokenShape{fixed: kind + "-", parts: uuid()})
	}
	for _, c := range "0123456789abcdef" { // the scanner needs three bytes
		out = append(out, tokenShape{fixed: "SK" + string(c), parts: exact(lowerHex, 31)})
	}
	for _, c := range "0123456789" {
		out = append(out, tokenShape{fixed: string(c) + "Q~", lead: of(alnum, 3, 3), parts: one(mixed, 31, 36)})
	}
	return out
}

// modelShapes are those of model providers.
func modelShapes() []tokenShape {
	return []tokenShape{
		{fixed: "claudeops_", parts: exact(base32Upper, 26)}, // ours
		{fixed: "/answer/", parts: open(url64, 80)},
		{fixed: "sk-", parts: open(url64, 16), digit: true},
		{fixed: "hf_", parts: exact(alnum, 34)},
		{fixed: "api_org_", parts: exact(alnum, 34)},
		{fixed: "gsk_", parts: open(alnum, 40)},
		{fixed: "r8_", parts: open(alnum, 36), digit: true},
		{fixed: "xai-", parts: open(alnum, 60)},
		{fixed: "pplx-", parts: open(alnum, 40)},
		{fixed: "pcsk_", parts: open(url64, 40)},
		{fixed: "lsv2_pt_", parts: open(url64, 32)},
		{fixed: "lsv2_sk_", parts: open(url64, 32)},
		{fixed: "nvapi-", parts: open(url64, 40)},
		{fixed: "tgp_v1_", parts: open(url64, 40)},
	}
}

// keyShapes are private keys and password hashes that are printed without a frame around them.
func keyShapes() []tokenShape {
	out := []tokenShape{
		{fixed: "$2a$", parts: []part{of(digits, 2, 2), {before: "$", of: anyValue, least: 50}}},
		{fixed: "$2b$", parts: []part{of(digits, 2, 2), {before: "$", of: anyValue, least: 50}}},
		{fixed: "$2y$", parts: []part{of(digits, 2, 2), {before: "$", of: anyValue, least: 50}}},
		{fixed: "$apr1$", parts: joined("$", of(anyValue, 4, 8), of(anyValue, 20, 24))},
		{fixed: "$5$", parts: joined("$", of(anyValue, 4, 24), of(anyValue, 40, 48))},
		{fixed: "$6$", parts: joined("$", of(anyValue, 4, 24), of(anyValue, 80, 90))},
		{fixed: "$y$", parts: joined("$", of(anyValue, 2, 8), of(anyValue, 8, 90), of(anyValue, 40, 48))},
	}
	// What the encodings of private keys begin with: OpenSSH, RSA and EC, with and without PKCS #8.
	for _, begin := range []string{
		"b3BlbnNzaC1rZXktdjE", "MIIEvQIBADAN", "MIIEvgIBADAN", "MIIEvwIBADAN", "MIIEwAIBADAN", "MIIJQgIBADAN", "MIIJQwIBADAN", "MIIJRAIBADAN",
		"MIIEowIBAAKC", "MIIEpAIBAAKC", "MIIEpQIBAAKC", "MIIEogIBAAKC", "MIIJKQIBAAKC", "MIIJKAIBAAKC", "MIIJKgIBAAKC",
		"MHcCAQEEI", "MIGHAgEAMBMG", "MC4CAQAwBQYDK2Vw", "MIGkAgEBBD",
	} {
		out = append(out, tokenShape{fixed: begin, parts: open(std64, 24)})
	}
	return out
}

// literal makes the matcher of a shape.
func (t tokenShape) literal() literal {
	out := literal{text: t.fixed, mark: markToken, match: t.match}
	if first := t.parts[0]; first.before == "" && first.least > 0 {
		out.next = first.of.has
	}
	return out
}

// match finds the token whose fixed text is s[i:j].
func (t tokenShape) match(s string, i, j int) (from, to int, ok bool) {
	last := t.parts[len(t.parts)-1]
	if from, ok = t.begin(s, i); !ok || last.of.has('-') && isAlnum(s[i]) && !startsWord(s, from) {
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
		to = run(s, to, last.of.has)
	}
	return from, to, true
}

// begin is where the token begins whose fixed text is at i.
func (t tokenShape) begin(s string, i int) (int, bool) {
	if t.lead.least == 0 {
		return i, !isAlnum(s[i]) || startsToken(s, i)
	}
	from := i
	for from > 0 && i-from < t.lead.most && t.lead.of.has(s[from-1]) {
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
	for to = i; to < len(s) && to-i < mostPart && p.of.has(s[to]); to++ {
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
