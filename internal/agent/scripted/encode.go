package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// encode makes one line of JSON and leaves <, > and & as they are, so that shell commands stay readable.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return b.Bytes(), nil
}
