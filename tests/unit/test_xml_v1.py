"""xml_v1: bills, laws and the Federal Register as text and Markdown (spec 1.1, 4.3; issue 10)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.extraction.article import Article
from headwater.extraction.registry import normalize, normalize_as, read_file
from headwater.extraction.sniffing import REGISTER_ROOTS, choose_normalizer
from headwater.extraction.xml.bill import ordinal

REGISTER_URL = "https://www.federalregister.gov/documents/full_text/xml/2026/06/02/2026-10962.xml"
PADDING = "Nothing in this sentence matters, but a body of less than two hundred bytes is taken for an error page. " * 2

OLD_BILL = f"""<?xml version="1.0" encoding="UTF-8"?>
<billStatus><bill>
  <billNumber>45</billNumber><billType>HJRES</billType><congress>113</congress>
  <createDate>2013-04-17T09:01:54Z</createDate><updateDate>2023-11-10T13:12:40Z</updateDate>
  <introducedDate>2013-04-16</introducedDate>
  <version>1.0.0</version>
  <title>A resolution about ferries</title>
  <sponsors><item><fullName>Rep. Weir, Ada [D-OR-1]</fullName></item></sponsors>
  <committees><billCommittees><item><name>Rivers Committee</name></item></billCommittees></committees>
  <actions>
    <item><actionDate>2013-05-01</actionDate><text>Hearings held.</text></item>
    <item><actionDate>2013-05-01</actionDate><text>Hearings held.</text></item>
    <actionTypeCounts><prayer>1</prayer></actionTypeCounts>
  </actions>
  <subjects><billSubjects><legislativeSubjects><item><name>Ferries</name></item></legislativeSubjects>
  </billSubjects></subjects>
  <summaries><billSummaries>
    <item><actionDate>2013-04-16</actionDate><text><![CDATA[<p>As it was <b>first</b> told.</p>]]></text></item>
    <item><actionDate>2013-06-01</actionDate><text><![CDATA[<p>Ferries cross.</p><p>{PADDING}</p>]]></text></item>
  </billSummaries></summaries>
</bill></billStatus>"""

NEW_BILL = f"""<?xml version="1.0" encoding="utf-8" standalone="no"?>
<billStatus><version>3.0.0</version><bill>
  <number>7</number><type>SCONRES</type><congress>117</congress>
  <updateDate>2022-09-07T13:37:56Z</updateDate><updateDateIncludingText>2022-09-08</updateDateIncludingText>
  <introducedDate>2021-03-01</introducedDate>
  <title>A concurrent resolution about weirs</title>
  <laws><item><type>Public Law</type><number>117-999</number></item></laws>
  <policyArea><name>Water</name></policyArea>
  <committees><item><name>Rules Committee</name></item></committees>
  <summaries><summary><actionDate>2021-03-01</actionDate>
    <text><![CDATA[ <p>Weirs are commended.</p><p>{PADDING}</p>]]></text></summary></summaries>
</bill></billStatus>"""

RULE = f"""<RULE>
  <PREAMB>
    <PRTPAGE P="32889"/>
    <AGENCY TYPE="F">DEPARTMENT OF WATERWAYS</AGENCY>
    <SUBAGY>Locks Administration</SUBAGY>
    <CFR>49 CFR Part 171</CFR>
    <SUBJECT>Locks: Hours of <E T="03">Opening</E></SUBJECT>
    <AGY><HD SOURCE="HED">AGENCY:</HD><P>Locks Administration.</P></AGY>
    <SUM><HD SOURCE="HED">SUMMARY:</HD><P>Locks open <PRTPAGE P="32890"/>earlier.</P></SUM>
  </PREAMB>
  <SUPLINF>
    <HD SOURCE="HD1">I. Background</HD>
    <P>{PADDING}</P>
    <GPOTABLE COLS="2"><TTITLE>Hours</TTITLE>
      <BOXHD><CHED H="1">Lock</CHED><CHED H="1">Opens</CHED></BOXHD>
      <ROW><ENT I="01">Oxley | Quay</ENT><ENT>06:00</ENT></ROW>
      <ROW><ENT I="01">Millrace</ENT></ROW>
    </GPOTABLE>
    <GPH DEEP="100"><GID>ER02JN26.000</GID></GPH>
  </SUPLINF>
  <REGTEXT TITLE="49" PART="171"><AMDPAR>1. Revise § 171.4 to read as follows:</AMDPAR>
    <SECTION><SECTNO>§ 171.4</SECTNO><SUBJECT>Hours.</SUBJECT><P>(a) Locks open at six.<FTREF/></P>
      <FTNT><P><SU>1</SU> In summer.</P></FTNT></SECTION></REGTEXT>
  <FRDOC>[FR Doc. 2026-10962 Filed 6-1-26; 8:45 am]</FRDOC><BILCOD>BILLING CODE 4910-60-P</BILCOD>
</RULE>"""

ORDER = f"""<?xml version="1.0"?><PRESDOCU><EXECORD>
  <TITLE3>Title 3-</TITLE3><PRES>The President<PRTPAGE P="1"/></PRES>
  <EXECORDR>Executive Order 99999 of May 29, 2026</EXECORDR>
  <HD SOURCE="HED">Keeping Towpaths Open</HD>
  <FP><E T="04">Section 1</E>. <E T="03">Purpose.</E> {PADDING}</FP>
  <PSIG>sig</PSIG></EXECORD></PRESDOCU>"""

LAW = f"""<?xml version="1.0" encoding="UTF-8"?><?xml-stylesheet href="uslm.css"?>
<pLaw xmlns="http://schemas.gpo.gov/xml/uslm" xmlns:dc="http://purl.org/dc/elements/1.1/">
  <meta><dc:title>Public Law 117-169: To keep the ferries running.</dc:title><docNumber>169</docNumber>
    <approvedDate>2022-08-16</approvedDate><processedDate>2023-01-01</processedDate></meta>
  <main>
    <longTitle><docTitle>An Act</docTitle><officialTitle>To keep the ferries running.</officialTitle></longTitle>
    <section><num value="1">SECTION 1. </num><heading>SHORT TITLE.</heading>
      <content>This Act may be cited as the <quotedText>Ferry Act</quotedText>.</content></section>
    <section><num value="2">SEC. 2. </num><heading>FERRIES.</heading>
      <subsection><num>(a) </num><heading>In General.</heading>
        <chapeau>Ferries run<sidenote><p>136 STAT. 1</p></sidenote> where</chapeau>
        <paragraph><num>(1) </num><content>there is water; {PADDING}</content></paragraph>
      </subsection></section>
  </main></pLaw>"""

PLAIN_LAW = f"""<?xml version="1.0"?>
<!DOCTYPE bill PUBLIC "-//US Congress//DTDs/bill.dtd//EN" "bill.dtd">
<bill><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dublinCore><dc:title>117 S 35 ENR: Towpath Act</dc:title>
  <dc:date>2021-01-22</dc:date></dublinCore></metadata>
  <form><official-title>To mend towpaths.</official-title></form>
  <legis-body><section><enum>1.</enum><header>Towpaths</header>
    <subsection><enum>(a)</enum><text>They are mended. {PADDING}</text></subsection></section></legis-body></bill>"""


def article(document: str, url: str = "https://files.test/one.xml") -> Article:
    page = normalize(document.encode(), url, "text/xml")
    assert page.normalizer == "xml_v1"
    return page.article


def test_a_bill_of_the_old_schema_has_its_dates_from_the_right_fields() -> None:
    """`createDate` and `updateDate` are times of the system, not dates of the bill."""
    found = article(OLD_BILL)
    assert found.title == "A resolution about ferries"
    assert found.byline == "Rep. Weir, Ada [D-OR-1]"
    assert found.published_at == datetime(2013, 4, 16, tzinfo=UTC)
    assert found.updated_at == datetime(2013, 5, 1, tzinfo=UTC)  # its last action
    assert found.abstract == "Ferries cross."
    assert "As it was first told" not in found.text
    assert found.text.count("2013-05-01: Hearings held.") == 1
    assert "# A resolution about ferries\n\nH.J.Res. 45, 113th Congress" in found.markdown
    assert "## Committees\n\n- Rivers Committee" in found.markdown
    assert "## Subjects\n\n- Ferries" in found.markdown
    fields = ("text", "title", "published_at", "updated_at", "byline", "abstract")
    assert found.provenance == dict.fromkeys(fields, "xml")


def test_a_bill_of_the_new_schema_reads_alike() -> None:
    found = article(NEW_BILL)
    assert found.published_at == datetime(2021, 3, 1, tzinfo=UTC)
    assert found.byline is None
    assert found.abstract == "Weirs are commended."
    start = "S.Con.Res. 7, 117th Congress\n\nPublic Law 117-999\n\nPolicy area: Water"
    assert start in found.text
    assert "## Committees\n\n- Rules Committee" in found.markdown


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("<version>3.0.0", "<version>4.0.0"), "version 4.0.0"),
        (("<version>3.0.0", "<version>33.0"), "version 33.0"),
        (("<version>3.0.0", "<version>3.1.0"), "version 3.1.0"),
        (("<version>3.0.0", "<version>3"), "version 3)"),
        (("<version>3.0.0", "<version>"), "version unsaid"),
        (("<bill>", "<version>3.0.0</version><bill>"), "version 3.0.0 and 3.0.0"),
        (("<bill>", "<bill><version>1.0.0</version>"), "version 3.0.0 and 1.0.0"),
        (("<version>3.0.0", f"<version>{'9' * 5000}"), "version 9999"),
        (("<bill>", "<measure>"), "without a bill"),
        (("</bill>", "</bill><bill><number>8</number></bill>"), "with 2 bills"),
        (("<number>7</number>", ""), "without the bill's number"),
        (("<congress>117</congress>", ""), "without the bill's number"),
    ],
)
def test_billstatus_of_an_unknown_schema_has_its_own_reason(change: tuple[str, str], told: str) -> None:
    document = NEW_BILL.replace(*change).replace("</bill>", "</measure>" if "measure" in change[1] else "</bill>")
    found = read_file(document.encode(), "https://files.test/one.xml", None)
    assert (found.normalizer, found.reason, found.page) == ("xml_v1", Reason.UNKNOWN_SCHEMA, None)
    assert told in found.message
    assert len(found.message) < 200


def test_a_rule_is_read_without_the_marks_of_the_printer() -> None:
    found = article(RULE, REGISTER_URL)
    assert found.title == "Locks: Hours of Opening"
    assert found.byline == "DEPARTMENT OF WATERWAYS"
    assert found.abstract == "Locks open earlier."
    assert found.published_at == datetime(2026, 6, 2, tzinfo=UTC)
    assert found.provenance["published_at"] == "url"
    assert found.confidence["published_at"] < found.confidence["title"]
    assert found.markdown.startswith("# Locks: Hours of Opening\n\nDEPARTMENT OF WATERWAYS\n\nLocks Administration")
    assert found.markdown.count("Hours of Opening") == 1
    assert "## SUMMARY\n\nLocks open earlier." in found.markdown
    assert "### I. Background" in found.markdown
    table = "| Lock | Opens |\n| --- | --- |\n| Oxley \\| Quay | 06:00 |\n| Millrace |"
    assert f"Hours\n\n{table}" in found.markdown
    assert "1\\. Revise § 171.4 to read as follows:\n\n#### § 171.4 Hours.\n\n(a) Locks open at six." in found.markdown
    assert "1 In summer." in found.text
    for mark in ("ER02JN26", "BILLING CODE", "32890"):
        assert mark not in found.text


def test_a_filing_date_is_not_a_publication_date() -> None:
    assert article(RULE, "https://files.test/one.xml").published_at is None


def test_the_title_of_a_presidential_order_is_its_first_heading() -> None:
    found = article(ORDER)
    assert found.title == "Keeping Towpaths Open"
    assert found.text.startswith(
        "Keeping Towpaths Open\n\nExecutive Order 99999 of May 29, 2026\n\nSection 1. Purpose. Nothing"
    )
    assert "sig" not in found.text.split()


CORRECTION = f"""<CORRECT>
  <PREAMB><PRTPAGE P="10"/><AGENCY TYPE="F">DEPARTMENT OF WATERWAYS</AGENCY>
    <SUBJECT>Locks: Hours of Opening</SUBJECT></PREAMB>
  <SUPLINF><HD SOURCE="HED">Correction</HD>
    <P>In rule document 2026-10962, "six" should read "seven". {PADDING}</P></SUPLINF>
  <FRDOC>[FR Doc. C1-2026-10962 Filed 6-4-26; 8:45 am]</FRDOC><BILCOD>BILLING CODE 0099-10-D</BILCOD>
</CORRECT>"""


def test_a_correction_is_read_like_the_corrected_document() -> None:
    found = article(CORRECTION, REGISTER_URL)
    assert (found.title, found.byline) == ("Locks: Hours of Opening", "DEPARTMENT OF WATERWAYS")
    assert '## Correction\n\nIn rule document 2026-10962, "six" should read "seven".' in found.markdown
    assert "C1-2026-10962" in found.text
    assert "BILLING" not in found.text


@pytest.mark.parametrize("root", sorted(REGISTER_ROOTS))
def test_every_root_of_the_register_has_a_reader(root: str) -> None:
    found = article(f'<{root}><HD SOURCE="HED">On Towpaths</HD><FP>{PADDING}</FP></{root}>', REGISTER_URL)
    assert (found.title, found.published_at) == ("On Towpaths", datetime(2026, 6, 2, tzinfo=UTC))


@pytest.mark.parametrize("kind", ["PROCLA", "DETERM", "PRMEMO", "PRNOTICE", "PRORDER", "EXECORD"])
def test_a_presidential_document_is_read_alone_or_in_its_wrapper(kind: str) -> None:
    inner = ORDER.partition("<EXECORD>")[2].partition("</EXECORD>")[0]
    alone = article(f"<{kind}>{inner}</{kind}>")
    assert article(f"<PRESDOCU><{kind}>{inner}</{kind}></PRESDOCU>") == alone
    assert alone.title == "Keeping Towpaths Open"


def test_a_law_in_uslm_keeps_numbers_with_their_text() -> None:
    found = article(LAW)
    assert found.title == "Public Law 117-169: To keep the ferries running."
    assert found.published_at == datetime(2022, 8, 16, tzinfo=UTC)
    assert "#### SECTION 1. SHORT TITLE.\n\nThis Act may be cited as the Ferry Act." in found.markdown
    assert "#### SEC. 2. FERRIES.\n\n(a) In General. Ferries run where\n\n(1) there is water;" in found.markdown
    assert "STAT" not in found.text


def test_a_law_in_the_markup_of_bills_reads_alike() -> None:
    """Its DOCTYPE names a file, which is not requested."""
    found = article(PLAIN_LAW)
    assert found.title == "117 S 35 ENR: Towpath Act"
    assert found.published_at == datetime(2021, 1, 22, tzinfo=UTC)
    assert "#### 1. Towpaths\n\n(a) They are mended." in found.markdown


@pytest.mark.parametrize(
    "document",
    [
        f"""<?xml version="1.0"?><!DOCTYPE billStatus [<!ENTITY a "{PADDING}"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
        <!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;">]>
        <billStatus><bill><number>1</number><type>S</type><congress>1</congress><title>&d;</title></bill></billStatus>""",
        f"""<?xml version="1.0"?><!DOCTYPE RULE [<!ENTITY secret SYSTEM "file:///etc/passwd">]>
        <RULE><SUBJECT>&secret;</SUBJECT><P>{PADDING}</P></RULE>""",
        f"<NOTICE><P>{PADDING}</P>{'<P>' * 100_000}",
        f"<NOTICE><P>{PADDING}</P>{'<P>' * 300}{'</P>' * 300}</NOTICE>",
        f"<bill><title>{PADDING}</bill>",
        f"<pLaw>{PADDING}&nothing;</pLaw>",
    ],
    ids=[
        "a bomb",
        "a file",
        "deep and broken off",
        "deep",
        "crossed",
        "an entity that nobody declares",
    ],
)
def test_hostile_documents_are_refused_with_a_message(document: str) -> None:
    """Spec 4.3: entities and references are never resolved, and the depth is limited."""
    found = read_file(document.encode(), "https://files.test/one.xml", None)
    assert (found.normalizer, found.reason, found.page) == ("xml_v1", Reason.PARSE_FAILED, None)
    assert found.message.endswith(".")
    assert "root:" not in found.message


def test_a_document_without_text_is_refused() -> None:
    with pytest.raises(Unreadable) as caught:
        normalize(f"<NOTICE>{'<PRTPAGE/>' * 50}</NOTICE>".encode(), "https://files.test/one.xml", None)
    assert caught.value.reason is Reason.EMPTY_TEXT


def test_other_xml_is_not_a_document() -> None:
    issue = f"<FEDREG><RULE><P>{PADDING}</P></RULE></FEDREG>"
    for document in (f'<?xml version="1.0"?>{issue}', issue, f"<urlset>{PADDING}</urlset>"):
        with pytest.raises(Unreadable) as caught:
            choose_normalizer(document.encode(), None)
        assert caught.value.reason is Reason.UNSUPPORTED_TYPE


def test_a_root_of_another_version_is_an_unknown_schema() -> None:
    with pytest.raises(Unreadable) as caught:
        normalize_as("xml_v1", b"<measure/>", "https://files.test/one.xml", None)
    assert caught.value.reason is Reason.UNKNOWN_SCHEMA


def test_signs_in_the_text_mean_nothing_in_markdown() -> None:
    found = article(
        f"<NOTICE><SUBJECT>*A* &lt;b&gt;</SUBJECT><P>## one</P><P>- two</P><P>3. three</P><P>{PADDING}</P></NOTICE>"
    )
    assert found.markdown.startswith("# \\*A\\* \\<b>\n\n\\## one\n\n\\- two\n\n3\\. three\n\nNothing")
    assert found.text.startswith("*A* <b>\n\n## one\n\n- two\n\n3. three")


@pytest.mark.parametrize(
    ("number", "written"), [("1", "1st"), ("102", "102nd"), ("103", "103rd"), ("111", "111th"), ("117", "117th")]
)
def test_the_number_of_a_congress_is_an_ordinal(number: str, written: str) -> None:
    assert ordinal(number) == written


ROOTS = st.sampled_from([OLD_BILL, NEW_BILL, RULE, ORDER, LAW, PLAIN_LAW])


@settings(max_examples=150)
@given(ROOTS, st.data())
def test_a_document_with_a_part_missing_is_read_or_refused_with_a_reason(document: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(document)))
    end = data.draw(st.integers(start, len(document)))
    found = read_file((document[:start] + document[end:]).encode(), REGISTER_URL, None)
    assert (found.page is None) == (found.reason is not None)
    assert found.page is None or found.page.text


def test_a_short_billstatus_of_an_unknown_schema_is_refused() -> None:
    """Spec 1.5."""
    body = b"<billStatus><version>9.0.0</version></billStatus>"
    with pytest.raises(Unreadable) as caught:
        normalize(body, "https://files.test/one.xml", "text/xml")
    assert caught.value.reason is Reason.UNKNOWN_SCHEMA


def test_short_rows_of_a_wide_table_are_not_filled_up() -> None:
    """Spec 4.3."""
    rows = "<ROW>" + "<ENT>x</ENT>" * 1000 + "</ROW>" + "<ROW><ENT>y</ENT></ROW>" * 5000
    body = f"<NOTICE><SUBJECT>S</SUBJECT><P>Text.</P><GPOTABLE>{rows}</GPOTABLE></NOTICE>"
    found = article(body, REGISTER_URL)
    assert found.markdown.count("y") >= 5000
    assert len(found.markdown) < 2 * len(body)
