package property

import (
	"net/url"
	"strconv"
	"strings"
)

// ParseText takes a text as it stands; every text is valid.
func ParseText(s string) (string, bool) { return s, true }

// ShowText is the inverse of ParseText.
func ShowText(s string) string { return s }

// ParseInteger reads a decimal integer.
func ParseInteger(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// ShowInteger is the inverse of ParseInteger.
func ShowInteger(n int64) string { return strconv.FormatInt(n, 10) }

// ParseDecimal accepts digits and one point only: no exponents, no NaN, which PVE's number check refuses or which would
// not compare equal to themselves.
func ParseDecimal(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// ShowDecimal is the inverse of ParseDecimal: as many decimals as are needed, no exponent.
func ShowDecimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// ParseBool reads a boolean as PVE does inside property strings (JSONSchema.pm parse_boolean).
func ParseBool(s string) (bool, bool) {
	switch strings.ToLower(s) {
	case "1", "on", "yes", "true":
		return true, true
	case "0", "off", "no", "false":
		return false, true
	}
	return false, false
}

// ShowBool is the inverse of ParseBool: "1" or "0".
func ShowBool(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// IsLetter says whether c is an ASCII letter.
func IsLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// IsDigit says whether c is a decimal digit.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// AllDigits says whether s is a decimal number without a sign; the empty text is not.
func AllDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// ParseMemory reads the plain number of PVE up to 8.0 and the property string of later versions.
func ParseMemory(s string) (int64, bool) { return ParseInteger(strings.TrimPrefix(s, "current=")) }

// PercentEncode escapes for PVE's format "urlencoded".
func PercentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if IsLetter(c) || IsDigit(c) || strings.IndexByte("-_.!~*'()", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}

// ParseEscaped reads a sub-key of format "urlencoded".
func ParseEscaped(s string) (string, bool) {
	plain, err := url.PathUnescape(s)
	return plain, err == nil
}
