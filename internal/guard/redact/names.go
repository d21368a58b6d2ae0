package redact

import "strings"

// name is a name whose value is a secret.
type name struct {
	text string // lower case; _ also matches - and . and nothing
	mark mark
	// short names are also parts of ordinary words, so they count only as a whole word or behind _, - or . and before =, or a quote.
	short bool
}

// names lists the names of secrets in settings, environment variables, headers, options and documents.
func names() []name {
	var out []name
	add := func(mark mark, short bool, texts ...string) {
		for _, text := range texts {
			for _, spelled := range spellings(text) {
				out = append(out, name{text: spelled, mark: mark, short: short})
			}
		}
	}
	add(markPassword, false, "password", "passwd", "passphrase", "passcode", "kennwort", "passwort", "requirepass", "masterauth")
	add(markPassword, true, "pass", "pwd", "psw", "psk")
	add(markToken, false,
		"token", "secret", "api_key", "access_key", "secret_key", "secret_key_base", "private_key", "encryption_key", "signing_key", "auth_key",
		"master_key", "account_key", "shared_key", "storage_key", "client_key", "consumer_key", "app_key", "license_key", "deploy_key", "ssh_key",
		"service_key", "session_key", "webhook_key", "admin_key", "unseal_key", "recovery_key", "shared_access_key", "credentials", "credential",
		"connection_string", "x-amz-signature", "x-goog-signature", "jsessionid", "phpsessid", "sessid", "sessionid", "connect.sid",
		"csrf", "xsrf-token", "mnemonic", "seed_phrase", "security_code", "otp_seed", "totp_seed", "vault_key",
		"hmac_key", "cipher_key", "aes_key")
	add(markToken, true, "_auth", "auth", "apikey", "sig")
	return out
}

// spellings are the ways a name of several words is written.
func spellings(text string) []string {
	if !strings.Contains(text, "_") || strings.HasPrefix(text, "_") {
		return []string{text}
	}
	return []string{text, strings.ReplaceAll(text, "_", "-"), strings.ReplaceAll(text, "_", "")}
}

func (n name) literal() literal {
	match := assigned
	if n.short {
		match = assignedShort
	}
	return literal{text: n.text, fold: true, mark: n.mark, match: match, next: func(c byte) bool { return c < 'A' || c == '_' || c == '\\' }}
}

// assignedShort is assigned for names that are also ordinary words or parts of them.
func assignedShort(s string, i, j int) (from, to int, ok bool) {
	if i > 0 && isAlnum(s[i-1]) && (s[i] < 'A' || s[i] > 'Z' || s[i-1] < 'a' || s[i-1] > 'z') && !startsToken(s, i) {
		return 0, 0, false // bypass, compass; but dbPass
	}
	p := j
	for p < len(s) && (s[p] == '\\' || s[p] == '"' || s[p] == '\'') {
		p++
	}
	quoted := p > j
	prefixed := i > 0 && (s[i-1] == '_' || s[i-1] == '-' || s[i-1] == '.' || isAlnum(s[i-1]) && !startsToken(s, i))
	if !quoted && !prefixed && (p >= len(s) || s[p] != '=') {
		return 0, 0, false // --- PASS: TestName
	}
	from, to, ok = assigned(s, i, j)
	if !ok {
		return 0, 0, false
	}
	value := s[from:to]
	if strings.EqualFold(s[i:j], "pwd") && value[0] == '/' || isAlgorithm(value) {
		return 0, 0, false // the working folder
	}
	if strings.HasSuffix(s[i:j], "auth") || s[i:j] == "sig" {
		return from, to, len(value) >= 12 && needDigit(value)
	}
	return from, to, len(value) >= 3
}

// isAlgorithm reports whether the value is one of the words that stand behind such names without being a secret.
func isAlgorithm(value string) bool {
	switch strings.ToLower(value) {
	case "true", "false", "yes", "no", "none", "null", "nil", "on", "off", "basic", "bearer", "peer", "trust", "scram-sha-256",
		"md5", "sha256", "required", "optional", "enabled", "disabled", "passed", "pass", "fail":
		return true
	}
	return false
}
