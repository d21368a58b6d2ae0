package decide

// Rows names the rows of the table, so that a test can ask for each of them.
func Rows() []string {
	var out []string
	for _, r := range table() {
		out = append(out, r.name)
	}
	return out
}
