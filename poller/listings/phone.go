package listings

import "strings"

// swissAreas are the first two digits after the 0 of Swiss numbers of persons and firms.
const swissAreas = " 21 22 24 26 27 31 32 33 34 41 43 44 51 52 55 56 58 61 62 71 74 75 76 77 78 79 81 91 "

// e164 writes a phone number as +41790000123 if it is clearly a Swiss or an international one; else it is empty.
func e164(raw string) string {
	s := strings.Replace(raw, "(0)", "", 1)
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" .-/()\t\u00a0\u2009\u202f\u2010\u2011\u2012\u2013", r) {
			return -1
		}
		return r
	}, s)
	if rest, ok := strings.CutPrefix(s, "00"); ok {
		s = "+" + rest
	}
	if rest, ok := strings.CutPrefix(s, "+"); ok {
		return international(rest)
	}
	if national, ok := strings.CutPrefix(s, "0"); ok && isSwiss(national) {
		return "+41" + national
	}
	return ""
}

func international(digits string) string {
	if !allDigits(digits) || len(digits) < 8 || len(digits) > 15 || digits[0] == '0' {
		return ""
	}
	if national, ok := strings.CutPrefix(digits, "41"); ok {
		if national = strings.TrimPrefix(national, "0"); len(national) != 9 {
			return ""
		}
		return "+41" + national
	}
	return "+" + digits
}

func isSwiss(national string) bool {
	return len(national) == 9 && allDigits(national) && strings.Contains(swissAreas, " "+national[:2]+" ")
}

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
