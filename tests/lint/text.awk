# text.awk - rules about lines as they are written; rules: columns, marker.

BEGIN {
    # In pieces, so that this file does not catch itself.
    markers = "(^|[^A-Za-z_])(TO" "DO|FIX" "ME|XX" "X|HA" "CK)([^A-Za-z_]|$)"
}

FILENAME ~ /\.(c|h|inc|sql|awk|sh)$/ {
    text = $0
    gsub(/[\200-\277]/, "", text) # a character is its first byte
    if (length(text) > 80)
        print FILENAME ":" FNR ": columns: " length(text) \
              " columns, 80 are the limit"
}

$0 ~ markers && $0 !~ /#[0-9]/ {
    print FILENAME ":" FNR ": marker: left for later without an issue number"
}
