package loop

// Normalize is the text by which the arguments of a call are compared.
func Normalize(args string) string {
	text, _, _ := canonical(args)
	return normalize(text)
}

// Similar compares two calls as the detector does.
func Similar(a, b Action) bool { return parse(a.Tool, a.Args).similar(parse(b.Tool, b.Args)) }
