# embed.awk - print the C table of the SQL files named on the command line.
#
#   awk -f embed.awk 0001_a.sql 0002_b.sql > migrations.c
#
# Plain POSIX awk.  Backslashes and quotes are escaped by split and join, since
# awks disagree on backslashes in the replacement text of gsub.

function replaced(text, from, to,    parts, count, i, out) {
    count = split(text, parts, from)
    out = parts[1]
    for (i = 2; i <= count; i++)
        out = out to parts[i]
    return out
}

function base_name(path,    parts, count) {
    count = split(path, parts, "/")
    return parts[count]
}

BEGIN {
    print "/* Made by ledger/migrations/embed.awk from the SQL files. */"
    print "#include \"ledger/migrate.h\""
    print ""
    print "const struct migration migrations[] = {"
}

FNR == 1 {
    if (started)
        print "    },"
    started = 1
    name = base_name(FILENAME)
    print "    {"
    print "        .number = " (substr(name, 1, 4) + 0) ","
    print "        .name = \"" name "\","
    print "        .sql ="
}

{
    line = $0
    if (index(line, "\\") > 0)
        line = replaced(line, "\\", "\\\\")
    if (index(line, "\"") > 0)
        line = replaced(line, "\"", "\\\"")
    print "            \"" line "\\n\""
}

END {
    if (started)
        print "    },"
    print "};"
    print "const size_t migration_count ="
    print "    sizeof(migrations) / sizeof(migrations[0]);"
}
