# includes.awk - who may include what.  Reads strip.awk's output of the
# components' sources; rules: include-direction, library-owner, banned-last.

BEGIN {
    # The direction between components: everything else is refused.
    may["common"] = ""
    may["model"] = "common"
    may["placement"] = "common"
    may["ledger"] = "common"
    may["inference"] = "common model"
    may["coordinator"] = "common model placement ledger"
    may["node-agent"] = "common model"
    may["cli"] = "common model placement ledger"

    # Where a component has few public headers, these are they.
    public["placement"] = "^placement/placement\\.h$"
    public["ledger"] = \
        "^ledger/(ledger|writer|db|migrate|settlement|price|split)\\.h$"
    public["inference"] = public["coordinator"] = "^$"
    public["node-agent"] = public["cli"] = "^$"
    # The command line takes only what is pure.
    pure = "^ledger/(price|split)\\.h$"

    # A library's header, and the files that own the library.
    owner["^libpq"] = "^ledger/"
    owner["^microhttpd\\.h$"] = "^coordinator/(http|reply|sse)"
    owner["^event2/"] = \
        "^coordinator/(links|peerwatch)|^node-agent/|^inference/serve"
    owner["^openssl/"] = \
        "^common/cert|^coordinator/links|^node-agent/(link|channel)"
    owner["^jansson\\.h$"] = "^common/(json|field)"
    owner["^curl/"] = \
        "^node-agent/(store|join|main)|^cli/|^coordinator/callback"
    owner["^pcre2\\.h$"] = "^model/"
    owner["^utf8proc\\.h$"] = "^model/"
    owner["^gnutls/"] = "^coordinator/http"
    owner["^mlx/"] = "^inference/mlx/"
}

function report(rule, text) {
    print file ":" line ": " rule ": " text
}

function component(path) {
    return substr(path, 1, index(path, "/") - 1)
}

function check_own(header,    from, to) {
    from = component(file)
    to = component(header)
    if (to == "") {
        if (header !~ /\.inc$/)
            report("include-direction", "\"" header \
                   "\" is not named from the root of the tree")
        return
    }
    if (to == from || !(to in may))
        return
    if (index(" " may[from] " ", " " to " ") == 0)
        report("include-direction", from " may not include " to)
    else if ((to in public) && header !~ public[to])
        report("include-direction", "\"" header "\" is private to " to)
    else if (from == "cli" && to == "ledger" && header !~ pure)
        report("include-direction", "cli may include only " \
               "ledger/price.h and ledger/split.h")
}

function check_library(header,    pattern) {
    for (pattern in owner) {
        if (header ~ pattern && file !~ owner[pattern])
            report("library-owner", "<" header "> belongs to " \
                   owner[pattern])
    }
}

function check_last() {
    if (file ~ /\.c$/ && last != "common/banned.h") {
        line = last_line
        report("banned-last", "common/banned.h is not the last include")
    }
}

{
    at = index($0, ":")
    next_file = substr($0, 1, at - 1)
    rest = substr($0, at + 1)
    if (next_file != file) {
        if (file != "")
            check_last()
        file = next_file
        last = ""
        last_line = 1
    }
    at = index(rest, ":")
    line = substr(rest, 1, at - 1)
    text = substr(rest, at + 1)
}

text ~ /^[ \t]*#[ \t]*include/ {
    if (!match(text, /["<][^">]*[">]/))
        next
    name = substr(text, RSTART + 1, RLENGTH - 2)
    if (substr(text, RSTART, 1) == "<")
        check_library(name)
    else
        check_own(name)
    if (name !~ /\.inc$/) {
        last = name
        last_line = line
    }
}

END {
    if (file != "")
        check_last()
}
