# banned.awk - functions that have a safer twin here.  Reads strip.awk's
# output; rule: banned.  common/banned.h makes most of them fail to compile;
# this also catches headers and what comes before that include.

BEGIN {
    count = split("strcpy strcat strncpy sprintf vsprintf strtok gets alloca " \
                  "atoi atol atoll strtol strtoul localtime gmtime asctime " \
                  "ctime rand srand strerror", names, " ")
    for (i = 1; i <= count; i++)
        banned[names[i]] = 1
}

/^[^:]*banned\.h:/ { next }

{
    at = index($0, ":")
    file = substr($0, 1, at - 1)
    rest = substr($0, at + 1)
    at = index(rest, ":")
    line = substr(rest, 1, at - 1)
    rest = substr(rest, at + 1)
    while (match(rest, /[A-Za-z_][A-Za-z0-9_]*[ \t]*\(/)) {
        name = substr(rest, RSTART, RLENGTH - 1)
        sub(/[ \t]+$/, "", name)
        if (name in banned)
            print file ":" line ": banned: " name \
                  "() is banned; common/banned.h says what to use"
        rest = substr(rest, RSTART + RLENGTH)
    }
}
