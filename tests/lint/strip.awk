# strip.awk - C without comments and without the insides of strings, line for
# line, so that rules about code do not trip over words.  Each line comes out
# as FILE:LINE:TEXT.

FNR == 1 { inside = 0 }

{
    out = ""
    rest = $0
    while (rest != "") {
        if (inside) {
            at = index(rest, "*/")
            if (at == 0) {
                rest = ""
            } else {
                rest = substr(rest, at + 2)
                inside = 0
            }
            continue
        }
        if (!match(rest, /\/\*|\/\/|"|'/)) {
            out = out rest
            break
        }
        mark = substr(rest, RSTART, RLENGTH)
        out = out substr(rest, 1, RSTART - 1)
        rest = substr(rest, RSTART + RLENGTH)
        if (mark == "//") {
            break
        } else if (mark == "/*") {
            inside = 1
        } else if (out ~ /^[ \t]*#[ \t]*include[ \t]*$/) {
            out = out mark rest # the file's name is wanted
            break
        } else {
            while (rest != "" && substr(rest, 1, 1) != mark)
                rest = substr(rest, substr(rest, 1, 1) == "\\" ? 3 : 2)
            rest = substr(rest, 2)
            out = out mark mark
        }
    }
    print FILENAME ":" FNR ":" out
}
